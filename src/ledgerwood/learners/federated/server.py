"""The server of a round of secure aggregation: see :mod:`ledgerwood.learners.federated.protocol`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from numpy.typing import NDArray

from ledgerwood.errors import AggregationFailed, ParameterError
from ledgerwood.learners.federated import masks, shamir
from ledgerwood.learners.federated.masks import Words
from ledgerwood.learners.federated.protocol import Advertisement, Round, Unmasking, pair_mask, self_mask, signers

__all__ = ["ServerRound"]


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
                self._masked[node] = masks.unpacked(data, self.round.length, self.round.bits)
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
