"""The two state machines of a round of secure aggregation: one client, and the server.

The messages and why they open one sum only are in :mod:`ledgerwood.learners.federated.protocol`.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum

import numpy as np
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305
from numpy.typing import NDArray

from ledgerwood.errors import AggregationFailed, ParameterError
from ledgerwood.learners.federated import masking
from ledgerwood.learners.federated.masking import Words
from ledgerwood.learners.federated.protocol import (
    Advertisement,
    Round,
    Unmasking,
    named_set,
    pair_mask,
    self_mask,
    signers,
)

__all__ = ["ClientRound", "ServerRound"]


class _Stage(Enum):
    ADVERTISE, SHARE, MASK, CONFIRM, UNMASK, DONE = range(6)


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
    _survivors: tuple[int, ...] = field(default=(), init=False)

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
            masking.split(secret, parties=parties, threshold=self.round.threshold)
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
        self._step(_Stage.MASK, _Stage.CONFIRM)
        if values.shape != (self.round.length,) or values.dtype != np.int64:
            raise self._fail("the vector has another shape or type than the round says")
        for node, envelope in envelopes.items():
            opened = self._opened(node, envelope)
            self._shares[node] = opened[: masking.SHARE_BYTES], opened[masking.SHARE_BYTES :]
        self._shares[self.node] = self._own
        if len(self._shares) < self.round.threshold:
            raise self._fail(f"{len(self._shares)} of at least {self.round.threshold} nodes shared their keys")
        total = masking.reduced(values, self.round.bits) + self_mask(self.round, self._seed)
        for node in self._shares:
            if node != self.node:
                total += pair_mask(self.round, self._mask_key, self.node, node, self._peers[node].mask_key)
        return masking.packed(total, self.round.bits)

    def confirm(self, survivors: Sequence[int]) -> bytes:
        """Step 4: a signature of the one set of survivors that this client will help to open."""
        self._step(_Stage.CONFIRM, _Stage.UNMASK)
        named = set(survivors)
        if not named <= self._shares.keys():
            raise self._fail("the server names survivors that never shared a key")
        if self.node not in named or len(named) < self.round.threshold:
            raise self._fail(f"{len(named)} survivors, of at least {self.round.threshold} with this node among them")
        self._survivors = tuple(sorted(named))
        return self.identity.sign(named_set(self.round, self._survivors))

    def unmask(self, signatures: Mapping[int, bytes]) -> Unmasking:
        """Step 5: shares that open the sum of the set that enough of its members signed, and nothing else."""
        self._step(_Stage.UNMASK, _Stage.DONE)
        signed = signers(self.round, self._survivors, signatures)
        if len(signed) < self.round.threshold:
            raise self._fail(f"{len(signed)} of at least {self.round.threshold} survivors signed the same set")
        seeds = {node: self._shares[node][1] for node in self._survivors}
        keys = {node: pair[0] for node, pair in self._shares.items() if node not in self._survivors}
        self._shares.clear()
        return Unmasking(self.node, seeds, keys)

    # ---- between two messages a client may live in a file

    def dump(self) -> bytes:
        """Return the state of this client, its private keys of this round included: as sensitive as its rows."""
        return json.dumps({
            "round": self.round.digest.hex(),
            "stage": self._stage.value,
            "mask_key": self._mask_key.private_bytes_raw().hex(),
            "envelope_key": self._envelope_key.private_bytes_raw().hex(),
            "seed": self._seed.hex(),
            "survivors": list(self._survivors),
            "own": [share.hex() for share in self._own],
            "peers": [
                [ad.node, ad.mask_key.hex(), ad.envelope_key.hex(), ad.signature.hex()] for ad in self._peers.values()
            ],
            "shares": {str(node): [share.hex() for share in pair] for node, pair in self._shares.items()},
        }).encode()  # fmt: skip

    @classmethod
    def load(cls, round: Round, node: int, identity: Ed25519PrivateKey, state: bytes) -> ClientRound:
        """Return the client that :meth:`dump` wrote, in the same round: its keys must not serve two."""
        data = json.loads(state)
        if data["round"] != round.digest.hex():
            raise AggregationFailed(f"client {node}: was asked to go on with another round; nothing was sent")
        client = cls(round, node, identity)
        client._stage = _Stage(data["stage"])
        client._mask_key = X25519PrivateKey.from_private_bytes(bytes.fromhex(data["mask_key"]))
        client._envelope_key = X25519PrivateKey.from_private_bytes(bytes.fromhex(data["envelope_key"]))
        client._seed = bytes.fromhex(data["seed"])
        client._survivors = tuple(data["survivors"])
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
        if ad.node not in self.round.identities or ad.node in self._peers:
            raise self._fail(f"node {ad.node} is not on the roster, or advertised twice")
        if not ad.genuine(self.round):
            raise self._fail(f"the keys of node {ad.node} are not signed by it for this round")

    def _cipher(self, node: int) -> ChaCha20Poly1305:
        theirs = self._peers[node].envelope_key
        pair = (self.node, node)
        key = masking.derived_key(self._envelope_key, theirs, digest=self.round.digest, purpose=b"envelope", pair=pair)
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
        if len(content) != 2 * masking.SHARE_BYTES:
            raise self._fail(f"the envelope of node {node} has the wrong size")
        return content


@dataclass(slots=True)
class ServerRound:
    """The server in one round: it passes messages on, drops the silent, and opens the sum of the survivors.

    A client whose message is not what the protocol says counts as silent: it cannot stop the others by that.
    """

    round: Round
    _ads: dict[int, Advertisement] = field(default_factory=dict, init=False, repr=False)
    _sharers: set[int] = field(default_factory=set, init=False)
    _masked: dict[int, Words] = field(default_factory=dict, init=False, repr=False)
    _signed: dict[int, bytes] = field(default_factory=dict, init=False, repr=False)

    def keys(self, advertisements: Sequence[Advertisement]) -> list[Advertisement]:
        """After step 1: what every client that advertised is sent."""
        self._ads = {ad.node: ad for ad in advertisements if ad.genuine(self.round)}
        self._enough(len(self._ads), "advertised keys")
        return [self._ads[node] for node in sorted(self._ads)]

    def envelopes(self, shared: Mapping[int, Mapping[int, bytes]]) -> dict[int, dict[int, bytes]]:
        """After step 2: for every client that shared, the envelopes addressed to it."""
        self._sharers = {
            node for node in shared if node in self._ads and shared[node].keys() == self._ads.keys() - {node}
        }
        self._enough(len(self._sharers), "shared their keys")
        return {
            to: {sender: shared[sender][to] for sender in sorted(self._sharers) if sender != to}
            for to in sorted(self._sharers)
        }

    def survivors(self, masked: Mapping[int, bytes]) -> list[int]:
        """After step 3: whose vectors arrived; this is the ``confirm`` request."""
        size = self.round.length * self.round.bits // 8
        for node, data in masked.items():
            if node in self._sharers and len(data) == size:
                self._masked[node] = masking.unpacked(data, self.round.length, self.round.bits)
        self._enough(len(self._masked), "sent their vectors")
        return sorted(self._masked)

    def confirmed(self, signatures: Mapping[int, bytes]) -> dict[int, bytes]:
        """After step 4: the signatures of the set of survivors; this is the ``unmask`` request to those who signed."""
        self._signed = signers(self.round, sorted(self._masked), signatures)
        self._enough(len(self._signed), "signed the set of survivors")
        return self._signed

    def total(self, unmaskings: Sequence[Unmasking]) -> NDArray[np.int64]:
        """After step 5: the exact sum of the survivors' vectors, in [-2**(bits-1), 2**(bits-1))."""
        answers = {answer.node: answer for answer in unmaskings if answer.node in self._signed}
        self._enough(len(answers), "answered the request to unmask")
        survivors, silent = set(self._masked), self._sharers - set(self._masked)
        total = np.zeros(self.round.length, dtype=np.uint64)
        for words in self._masked.values():
            total += words
        for node in survivors:
            seed = self._recovered(node, {a.node: a.seeds.get(node, b"") for a in answers.values()})
            total -= self_mask(self.round, seed)
        for node in silent:
            secret = self._recovered(node, {a.node: a.mask_keys.get(node, b"") for a in answers.values()})
            key = X25519PrivateKey.from_private_bytes(secret)
            if key.public_key().public_bytes_raw() != self._ads[node].mask_key:
                raise AggregationFailed(f"server: the recovered key of node {node} is not the one it advertised")
            for other in survivors:  # what `other` added towards `node` is minus what `node` would have added
                total += pair_mask(self.round, key, node, other, self._ads[other].mask_key)
        return masking.centred(total & np.uint64(2**self.round.bits - 1), self.round.bits)

    def _recovered(self, node: int, shares: Mapping[int, bytes]) -> bytes:
        present = {self.round.place(i): share for i, share in shares.items() if len(share) == masking.SHARE_BYTES}
        try:
            return masking.recover(present, threshold=self.round.threshold)
        except ParameterError:
            raise AggregationFailed(f"server: the shares do not open the masks of node {node}") from None

    def _enough(self, count: int, what: str) -> None:
        if count < self.round.threshold:
            raise AggregationFailed(
                f"server: only {count} nodes {what}, {self.round.threshold} are needed; no sum was opened. "
                f"Start a new round"
            )
