r"""Secure aggregation as two state machines, independent of any transport.

Four messages from each client, after Bonawitz et al. 2017 (honest-but-curious server, dropouts at every stage):

1. ``advertise``: two X25519 public keys, one for masks and one for envelopes, signed with the node's identity key.
2. ``share``: the mask key and a self-mask seed, each split by Shamir among all who advertised, in one authenticated
   envelope per peer.
3. ``mask``: the vector plus the self mask plus the pairwise masks (added towards higher ids, subtracted towards
   lower), modulo :math:`2^{bits}`.
4. ``unmask``: for each client whose vector arrived, a share of its seed; for each that shared and then fell silent, a
   share of its mask key. Never both.

**Sum.** Pairwise masks of two survivors cancel; masks towards a client that fell silent are recomputed from its
recovered key; self masks are recomputed from the seeds. What is left is the sum of the survivors' vectors modulo
:math:`2^{bits}`, exactly.

**What the server learns.** With a threshold above half of the clients (and colluders, see below), every client
answers one ``unmask`` per round, so at most one set of survivors can gather enough answers, and no client has both
its seed and its mask key recovered. The vector of a survivor then stays hidden by a keystream under an unknown key;
the server learns the sum. With up to c colluding clients the threshold must exceed (n + c) / 2: :class:`Round` asks
for ``colluding`` and checks it.

A server that lies about who fell silent learns the sum over the set it names, and only that one; a share of the noise
sized for the threshold keeps that sum private. What it can still do is refuse service or drop chosen clients.
"""

from __future__ import annotations

import hashlib
import json
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum

import numpy as np
from cryptography.exceptions import InvalidSignature, InvalidTag
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305
from numpy.typing import NDArray

from ledgerwood.errors import AggregationFailed, ParameterError
from ledgerwood.learners.federated import masks, shamir
from ledgerwood.learners.federated.masks import Words

__all__ = ["Advertisement", "ClientRound", "Round", "ServerRound", "Unmasking"]

_ENVELOPE, _MASK = b"envelope", b"mask"


@dataclass(frozen=True, slots=True)
class Round:
    """The public facts of one aggregation; every key is bound to their digest.

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
    """

    session: bytes
    identities: Mapping[int, bytes]
    length: int
    bits: int = 32
    threshold: int = 2
    colluding: int = 0

    def __post_init__(self) -> None:
        if len(self.session) != 32:
            raise ParameterError("session", "have 32 bytes", f"<{len(self.session)} bytes>")
        if self.bits not in masks.WIDTHS:
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
        h = hashlib.sha256(b"ledgerwood round 1|" + self.session)
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


@dataclass(frozen=True, slots=True)
class Unmasking:
    """One client's shares: of the seeds of survivors, and of the mask keys of the silent."""

    node: int
    seeds: Mapping[int, bytes]
    mask_keys: Mapping[int, bytes]


class _Stage(Enum):
    ADVERTISE, SHARE, MASK, UNMASK, DONE = range(5)


@dataclass(slots=True)
class ClientRound:
    """One client in one round. Every step runs once, in order; a step that fails ends the round for this client."""

    round: Round
    node: int
    identity: Ed25519PrivateKey = field(repr=False)
    _stage: _Stage = field(default=_Stage.ADVERTISE, init=False)
    _mask_key: X25519PrivateKey = field(init=False, repr=False)
    _envelope_key: X25519PrivateKey = field(init=False, repr=False)
    _seed: bytes = field(init=False, repr=False)
    _peers: dict[int, Advertisement] = field(default_factory=dict, init=False, repr=False)
    _shares: dict[int, tuple[bytes, bytes]] = field(default_factory=dict, init=False, repr=False)
    _own: tuple[bytes, bytes] = field(default=(b"", b""), init=False, repr=False)

    def __post_init__(self) -> None:
        mine = self.identity.public_key().public_bytes_raw()
        if self.round.identities.get(self.node) != mine:
            raise ParameterError("identity", "be the key that the round lists for this node", self.node)
        self._mask_key, self._envelope_key = X25519PrivateKey.generate(), X25519PrivateKey.generate()
        self._seed = secrets.token_bytes(32)

    def advertise(self) -> Advertisement:
        """Step 1: public keys for this round."""
        self._step(_Stage.ADVERTISE, _Stage.SHARE)
        mask_key, envelope_key = (k.public_key().public_bytes_raw() for k in (self._mask_key, self._envelope_key))
        unsigned = Advertisement(self.node, mask_key, envelope_key, b"")
        return replace(unsigned, signature=self.identity.sign(unsigned.signed(self.round.digest)))

    def share(self, advertisements: Sequence[Advertisement]) -> dict[int, bytes]:
        """Step 2: one envelope for every other node that advertised."""
        self._step(_Stage.SHARE, _Stage.MASK)
        for ad in advertisements:
            self._check(ad)
            self._peers[ad.node] = ad
        if self.node not in self._peers or len(self._peers) < self.round.threshold:
            raise self._fail(f"{len(self._peers)} of at least {self.round.threshold} nodes advertised keys")
        parties = len(self.round.identities)
        pieces = [
            shamir.split(secret, parties=parties, threshold=self.round.threshold)
            for secret in (self._mask_key.private_bytes_raw(), self._seed)
        ]
        envelopes = {}
        for node in self._peers:
            place = self.round.place(node)
            pair = pieces[0][place], pieces[1][place]
            if node == self.node:
                self._own = pair
            else:
                envelopes[node] = self._sealed(node, b"".join(pair))
        return envelopes

    def mask(self, values: NDArray[np.int64], envelopes: Mapping[int, bytes]) -> bytes:
        """Step 3: the masked vector, from the envelopes of all nodes that shared."""
        self._step(_Stage.MASK, _Stage.UNMASK)
        if values.shape != (self.round.length,) or values.dtype != np.int64:
            raise self._fail("the vector has another shape or type than the round says")
        for node, envelope in envelopes.items():
            opened = self._opened(node, envelope)
            self._shares[node] = opened[: shamir.SHARE_BYTES], opened[shamir.SHARE_BYTES :]
        self._shares[self.node] = self._own
        if len(self._shares) < self.round.threshold:
            raise self._fail(f"{len(self._shares)} of at least {self.round.threshold} nodes shared their keys")
        total = masks.reduced(values, self.round.bits) + _self_mask(self.round, self._seed)
        for node in self._shares:
            if node != self.node:
                total += pair_mask(self.round, self._mask_key, self.node, node, self._peers[node].mask_key)
        return masks.packed(total, self.round.bits)

    def unmask(self, survivors: Sequence[int]) -> Unmasking:
        """Step 4: shares that open the sum of ``survivors``, and nothing else, ever again in this round."""
        self._step(_Stage.UNMASK, _Stage.DONE)
        named = set(survivors)
        if not named <= self._shares.keys():
            raise self._fail("the server names survivors that never shared a key")
        if self.node not in named or len(named) < self.round.threshold:
            raise self._fail(f"{len(named)} survivors, of at least {self.round.threshold} with this node among them")
        seeds = {node: self._shares[node][1] for node in named}
        keys = {node: pair[0] for node, pair in self._shares.items() if node not in named}
        self._shares.clear()
        return Unmasking(self.node, seeds, keys)

    # ---- between two messages a client may live in a file

    def dump(self) -> bytes:
        """Return the state of this client, its private keys of this round included: as sensitive as its rows."""
        return json.dumps({
            "stage": self._stage.value,
            "mask_key": self._mask_key.private_bytes_raw().hex(),
            "envelope_key": self._envelope_key.private_bytes_raw().hex(),
            "seed": self._seed.hex(),
            "own": [share.hex() for share in self._own],
            "peers": [
                [ad.node, ad.mask_key.hex(), ad.envelope_key.hex(), ad.signature.hex()] for ad in self._peers.values()
            ],
            "shares": {str(node): [share.hex() for share in pair] for node, pair in self._shares.items()},
        }).encode()  # fmt: skip

    @classmethod
    def load(cls, round: Round, node: int, identity: Ed25519PrivateKey, state: bytes) -> ClientRound:
        """Return the client that :meth:`dump` wrote."""
        data = json.loads(state)
        client = cls(round, node, identity)
        client._stage = _Stage(data["stage"])
        client._mask_key = X25519PrivateKey.from_private_bytes(bytes.fromhex(data["mask_key"]))
        client._envelope_key = X25519PrivateKey.from_private_bytes(bytes.fromhex(data["envelope_key"]))
        client._seed = bytes.fromhex(data["seed"])
        client._own = (bytes.fromhex(data["own"][0]), bytes.fromhex(data["own"][1]))
        client._peers = {a[0]: Advertisement(a[0], *(bytes.fromhex(x) for x in a[1:])) for a in data["peers"]}
        client._shares = {int(n): (bytes.fromhex(a), bytes.fromhex(b)) for n, (a, b) in data["shares"].items()}
        return client

    def _step(self, now: _Stage, then: _Stage) -> None:
        if self._stage is not now:
            raise AggregationFailed(f"client {self.node}: {now.name.lower()} was asked out of turn; nothing was sent")
        self._stage = then

    def _fail(self, reason: str) -> AggregationFailed:
        self._stage = _Stage.DONE
        self._shares.clear()
        return AggregationFailed(f"client {self.node}: {reason}; nothing was sent")

    def _check(self, ad: Advertisement) -> None:
        key = self.round.identities.get(ad.node)
        if key is None or ad.node in self._peers:
            raise self._fail(f"node {ad.node} is not on the roster, or advertised twice")
        try:
            Ed25519PublicKey.from_public_bytes(key).verify(ad.signature, ad.signed(self.round.digest))
        except InvalidSignature:
            raise self._fail(f"the keys of node {ad.node} are not signed by it") from None

    def _cipher(self, node: int) -> ChaCha20Poly1305:
        theirs = self._peers[node].envelope_key
        pair = (self.node, node)
        key = masks.derived_key(self._envelope_key, theirs, digest=self.round.digest, purpose=_ENVELOPE, pair=pair)
        return ChaCha20Poly1305(key)

    def _sealed(self, node: int, content: bytes) -> bytes:
        nonce = secrets.token_bytes(12)
        return nonce + self._cipher(node).encrypt(nonce, content, b"%d>%d" % (self.node, node))

    def _opened(self, node: int, envelope: bytes) -> bytes:
        if node not in self._peers or node == self.node:
            raise self._fail(f"an envelope from node {node}, which advertised no keys")
        try:
            content = self._cipher(node).decrypt(envelope[:12], envelope[12:], b"%d>%d" % (node, self.node))
        except (InvalidTag, ValueError):
            raise self._fail(f"the envelope of node {node} is not authentic") from None
        if len(content) != 2 * shamir.SHARE_BYTES:
            raise self._fail(f"the envelope of node {node} has the wrong size")
        return content


@dataclass(slots=True)
class ServerRound:
    """The server in one round: it passes messages on, drops the silent, and opens the sum of the survivors."""

    round: Round
    _ads: dict[int, Advertisement] = field(default_factory=dict, init=False, repr=False)
    _sharers: set[int] = field(default_factory=set, init=False)
    _masked: dict[int, Words] = field(default_factory=dict, init=False, repr=False)

    def keys(self, advertisements: Sequence[Advertisement]) -> list[Advertisement]:
        """After step 1: what every client that advertised is sent."""
        self._ads = {ad.node: ad for ad in advertisements if ad.node in self.round.identities}
        self._enough(len(self._ads), "advertised keys")
        return [self._ads[node] for node in sorted(self._ads)]

    def envelopes(self, shared: Mapping[int, Mapping[int, bytes]]) -> dict[int, dict[int, bytes]]:
        """After step 2: for every client that shared, the envelopes addressed to it."""
        self._sharers = {node for node in shared if node in self._ads}
        self._enough(len(self._sharers), "shared their keys")
        for sender in self._sharers:
            if set(shared[sender]) != self._ads.keys() - {sender}:
                raise AggregationFailed(f"server: node {sender} did not send one envelope to every other node")
        return {
            to: {sender: shared[sender][to] for sender in sorted(self._sharers) if sender != to}
            for to in sorted(self._sharers)
        }

    def survivors(self, masked: Mapping[int, bytes]) -> list[int]:
        """After step 3: whose vectors arrived; this is the ``unmask`` request."""
        size = self.round.length * self.round.bits // 8
        for node, data in masked.items():
            if node not in self._sharers or len(data) != size:
                raise AggregationFailed(f"server: node {node} sent {len(data)} bytes, expected {size} from a sharer")
            self._masked[node] = masks.unpacked(data, self.round.length, self.round.bits)
        self._enough(len(self._masked), "sent their vectors")
        return sorted(self._masked)

    def total(self, unmaskings: Sequence[Unmasking]) -> NDArray[np.int64]:
        """After step 4: the exact sum of the survivors' vectors, in [-2**(bits-1), 2**(bits-1))."""
        answers = {answer.node: answer for answer in unmaskings if answer.node in self._masked}
        self._enough(len(answers), "answered the request to unmask")
        survivors, silent = set(self._masked), self._sharers - set(self._masked)
        total = np.zeros(self.round.length, dtype=np.uint64)
        for words in self._masked.values():
            total += words
        for node in survivors:
            seed = self._recovered(node, {a.node: a.seeds.get(node, b"") for a in answers.values()})
            total -= _self_mask(self.round, seed)
        for node in silent:
            secret = self._recovered(node, {a.node: a.mask_keys.get(node, b"") for a in answers.values()})
            key = X25519PrivateKey.from_private_bytes(secret)
            if key.public_key().public_bytes_raw() != self._ads[node].mask_key:
                raise AggregationFailed(f"server: the recovered key of node {node} is not the one it advertised")
            for other in survivors:  # what `other` added towards `node` is minus what `node` would have added
                total += pair_mask(self.round, key, node, other, self._ads[other].mask_key)
        return masks.centred(total & np.uint64(2**self.round.bits - 1), self.round.bits)

    def _recovered(self, node: int, shares: Mapping[int, bytes]) -> bytes:
        present = {self.round.place(i): share for i, share in shares.items() if len(share) == shamir.SHARE_BYTES}
        try:
            return shamir.recover(present, threshold=self.round.threshold)
        except ParameterError:
            raise AggregationFailed(f"server: the shares do not open the masks of node {node}") from None

    def _enough(self, count: int, what: str) -> None:
        if count < self.round.threshold:
            raise AggregationFailed(
                f"server: only {count} nodes {what}, {self.round.threshold} are needed; no sum was opened. "
                f"Start a new round"
            )


def pair_mask(round: Round, mine: X25519PrivateKey, node: int, other: int, theirs: bytes) -> Words:
    """What ``node`` adds towards ``other``: the keystream of their common key, with a sign by the order of the ids."""
    key = masks.derived_key(mine, theirs, digest=round.digest, purpose=_MASK, pair=(node, other))
    stream = masks.keystream(key, round.length, round.bits)
    return stream if node < other else np.negative(stream)


def _self_mask(round: Round, seed: bytes) -> Words:
    return masks.keystream(
        hashlib.sha256(b"ledgerwood self mask 1|" + round.digest + seed).digest(), round.length, round.bits
    )
