r"""Secure aggregation as two state machines, independent of any transport: what both sides know.

The machines are :class:`~ledgerwood.learners.federated.secure_aggregation.ClientRound` and
:class:`~ledgerwood.learners.federated.secure_aggregation.ServerRound`.

Five messages from each client, after Bonawitz et al. 2017 (dropouts at every stage, and their consistency check):

1. ``advertise``: two X25519 public keys, one for masks and one for envelopes, signed with the node's identity key.
2. ``share``: the mask key and a self-mask seed, each split by Shamir among all who advertised, in one authenticated
   envelope per peer.
3. ``mask``: the vector plus the self mask plus the pairwise masks (added towards higher ids, subtracted towards
   lower), modulo :math:`2^{bits}`.
4. ``confirm``: a signature of the set of clients whose vectors arrived, as the server names it.
5. ``unmask``, given signatures of that same set by ``threshold`` of its members: for each client in it a share of its
   seed; for each that shared and then fell silent a share of its mask key. Never both.

**Sum.** Pairwise masks of two survivors cancel; masks towards a client that fell silent are recomputed from its
recovered key; self masks are recomputed from the seeds. What is left is the sum of the survivors' vectors modulo
:math:`2^{bits}`, exactly.

**One set per round.** Every honest client signs one set, and a set needs ``threshold`` signatures. Two sets would need
:math:`2t` of them, and there are at most :math:`(n - c) + 2c = n + c` (c colluders sign both). With
:math:`t > (n + c)/2` at most one set S gathers enough, whatever the server says to whom, so every honest client that
answers gives seeds of S and mask keys of the rest. To see a sum over T the server must remove the masks between T and
everyone else. A client j of S keeps its key, so its pairwise masks stay, and T contains all of S; a client outside S
keeps its seed, so T contains none of it. Hence T = S, with at least ``threshold`` members and all their noise. Without
step 4 this fails: with n = 5 and t = 3 a server that names different sets to different clients opens a sum of two
(``tests/learners/federated/test_attacks.py``).

**One query per round.** Every key, signature and envelope is bound to :attr:`Round.digest`, and that to a hash of
what is asked (``subject``), which a client derives itself before it masks. Clients that were sent different things
cannot read each other's keys, so all vectors of a sum answer the same query, and their noise has the same size.

What a lying server can still do is refuse service or leave out chosen clients, down to the threshold.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey

from ledgerwood.errors import ParameterError
from ledgerwood.learners.federated import masking
from ledgerwood.learners.federated.masking import Words

__all__ = ["Advertisement", "Round", "Unmasking", "named_set", "pair_mask", "self_mask", "signers"]

_PROBE = X25519PrivateKey.from_private_bytes(bytes(31) + b"\1")
"""Any key will do: a point of low order gives zero with all of them."""


@dataclass(frozen=True, slots=True)
class Round:
    """The public metadata of one aggregation; every key is bound to their digest.

    Parameters
    ----------
    session
        32 bytes that name this round and no other.
    identities
        Node id to Ed25519 public key, for every node that may take part: agreed beforehand, not taken from the server.
    length, bits
        Entries of the vector, and the modulus 2**bits of each (32 or 40).
    threshold
        The fewest survivors whose sum is opened; it must exceed (nodes + colluding) / 2.
    colluding
        How many clients may work with the server.
    subject
        A hash of what is asked.
    """

    session: bytes
    identities: Mapping[int, bytes]
    length: int
    bits: int = 32
    threshold: int = 2
    colluding: int = 0
    subject: bytes = b""

    def __post_init__(self) -> None:
        if len(self.session) != 32:
            raise ParameterError("session", "have 32 bytes", f"<{len(self.session)} bytes>")
        if self.bits not in masking.WIDTHS:
            raise ParameterError("bits", "be 32 or 40", self.bits)
        if self.length < 1:
            raise ParameterError("length", "be at least 1", self.length)
        n = len(self.identities)
        if self.colluding < 0 or not (n + self.colluding) / 2 < self.threshold <= n or self.threshold < 2:
            rule = f"be at least 2, exceed (nodes + colluding) / 2 = {(n + self.colluding) / 2:g} and be at most {n}"
            raise ParameterError("threshold", rule, self.threshold)
        if len(set(self.identities.values())) < n:
            raise ParameterError("identities", "differ from node to node", "<a key twice>")

    @property
    def digest(self) -> bytes:
        """A hash of everything both sides must agree on."""
        h = hashlib.sha256(b"ledgerwood round 2|" + self.session + hashlib.sha256(self.subject).digest())
        h.update(b"%d|%d|%d|%d|" % (self.length, self.bits, self.threshold, self.colluding))
        for node in sorted(self.identities):
            h.update(b"%d:" % node + self.identities[node])
        return h.digest()

    def place(self, node: int) -> int:
        """The index of a node's Shamir share."""
        return sorted(self.identities).index(node)


@dataclass(frozen=True, slots=True)
class Advertisement:
    """A node's two public keys of this round, signed with its identity."""

    node: int
    mask_key: bytes
    envelope_key: bytes
    signature: bytes

    def signed(self, digest: bytes) -> bytes:
        """What the signature covers."""
        return b"ledgerwood advertisement 1|" + digest + b"|%d|" % self.node + self.mask_key + self.envelope_key

    def genuine(self, round: Round) -> bool:
        """Whether a node of the roster signed it for this round, with keys that a secret can be agreed on by."""
        try:
            identity = Ed25519PublicKey.from_public_bytes(round.identities[self.node])
            identity.verify(self.signature, self.signed(round.digest))
            for key in (self.mask_key, self.envelope_key):  # an exchange with a point of low order raises
                _PROBE.exchange(X25519PublicKey.from_public_bytes(key))
        except (InvalidSignature, KeyError, TypeError, ValueError):
            return False
        return True


@dataclass(frozen=True, slots=True)
class Unmasking:
    """One client's shares: of the seeds of survivors, and of the mask keys of the silent."""

    node: int
    seeds: Mapping[int, bytes]
    mask_keys: Mapping[int, bytes]


def named_set(round: Round, survivors: Sequence[int]) -> bytes:
    """Return what a signature of a set of survivors covers."""
    return b"ledgerwood survivors 1|" + round.digest + b"|" + b",".join(b"%d" % node for node in survivors)


def signers(round: Round, survivors: Sequence[int], signatures: Mapping[int, bytes]) -> dict[int, bytes]:
    """Return those signatures of a set of survivors, in order, that its members really made."""
    message, found = named_set(round, survivors), {}
    for node in survivors:
        try:
            Ed25519PublicKey.from_public_bytes(round.identities[node]).verify(signatures.get(node, b""), message)
        except (InvalidSignature, TypeError):
            continue
        found[node] = signatures[node]
    return found


def pair_mask(round: Round, mine: X25519PrivateKey, node: int, other: int, theirs: bytes) -> Words:
    """What ``node`` adds towards ``other``: the keystream of their common key, with a sign by the order of the ids."""
    key = masking.derived_key(mine, theirs, digest=round.digest, purpose=b"mask", pair=(node, other))
    stream = masking.keystream(key, round.length, round.bits)
    return stream if node < other else np.negative(stream)


def self_mask(round: Round, seed: bytes) -> Words:
    """Return the keystream of a client's seed."""
    return masking.keystream(
        hashlib.sha256(b"ledgerwood self mask 1|" + round.digest + seed).digest(), round.length, round.bits
    )
