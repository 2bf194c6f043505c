"""A party behind a transport: it answers five kinds of message, with its state in between.

Messages are dictionaries of bytes, numbers and lists of them: any transport can carry them. What a party was told to
agree on (the task) it has from its own configuration; a server with another task is refused before anything is read.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from numpy.typing import NDArray

from ledgerwood.errors import AggregationFailed, FormatError
from ledgerwood.learners.federated import masks
from ledgerwood.learners.federated.client import ClientRound
from ledgerwood.learners.federated.protocol import Advertisement, Round
from ledgerwood.learners.federated.replay import Once
from ledgerwood.learners.federated.task import FederatedTask

if TYPE_CHECKING:
    from ledgerwood.learners.federated.party import Party

__all__ = ["KINDS", "REFUSED", "Node", "Payload", "round_of"]

Payload: TypeAlias = dict[str, Any]
KINDS = ("advertise", "share", "mask", "confirm", "unmask")
_ONCE = ("mask", "confirm", "unmask")
REFUSED = "refused"
"""The key of a reply that says why a party does not answer."""
VERSION = 3


def round_of(task: FederatedTask, session: bytes, length: int, asked: bytes) -> Round:
    """Return the public facts of one aggregation."""
    identities = {node: bytes.fromhex(key) for node, key in task.identities.items()}
    return Round(session, identities, length, task.bits, task.threshold, task.colluding, asked)


def packed_ads(ads: list[Advertisement]) -> Payload:
    """Return advertisements as a message."""
    return {
        "nodes": [ad.node for ad in ads],
        "mask_keys": [ad.mask_key for ad in ads],
        "envelope_keys": [ad.envelope_key for ad in ads],
        "signatures": [ad.signature for ad in ads],
    }


def unpacked_ads(message: Mapping[str, Any]) -> list[Advertisement]:
    """Read what :func:`packed_ads` wrote."""
    parts = (message[name] for name in ("nodes", "mask_keys", "envelope_keys", "signatures"))
    return [Advertisement(int(node), *map(raw, keys)) for node, *keys in zip(*parts, strict=True)]


def packed_map(found: Mapping[int, bytes], prefix: str = "") -> Payload:
    """Return bytes by node as a message."""
    return {f"{prefix}nodes": list(found), f"{prefix}data": list(found.values())}


def unpacked_map(message: Mapping[str, Any], prefix: str = "") -> dict[int, bytes]:
    """Read what :func:`packed_map` wrote."""
    return {
        int(node): raw(data) for node, data in zip(message[f"{prefix}nodes"], message[f"{prefix}data"], strict=True)
    }


def raw(value: Any) -> bytes:
    """Return bytes that are bytes: ``bytes(n)`` would make n of them."""
    if not isinstance(value, bytes):
        raise TypeError(type(value).__name__)
    return value


def unpacked_unmasking(message: Mapping[str, Any]) -> tuple[dict[int, bytes], dict[int, bytes]]:
    """Read a client's last message: shares of seeds, and of mask keys."""
    return unpacked_map(message, "seed_"), unpacked_map(message, "key_")


@dataclass
class Node:
    """One party, its identity, and how to reach its rows.

    Parameters
    ----------
    task
        What this party agreed to.
    number
        Its id on the roster.
    identity
        Its signing key.
    party
        Opens the rows and the ledger; called only when sums are asked for.
    once
        Remembers which steps of which round were taken, whatever becomes of the state in between.

    Examples
    --------
    >>> from ledgerwood.learners import Schema
    >>> from ledgerwood.learners.federated import Party, identities
    >>> keys, roster = identities(2)
    >>> task = FederatedTask(Schema(bounds={0: (0, 1)}, classes=[0, 1]), (0,), roster, threshold=2, rows=100,
    ...     recipe="tr_cyc")
    >>> node = Node(task, 1, keys[1], lambda: Party(task, [[0.2], [0.7]], [0, 1]))
    >>> node.handle("hand over the rows", {})
    Traceback (most recent call last):
    ledgerwood.errors.FormatError: ...
    """

    task: FederatedTask
    number: int
    identity: Ed25519PrivateKey
    party: Callable[[], Party]
    once: Once = field(default_factory=Once)

    def handle(self, kind: str, message: Mapping[str, Any], state: bytes = b"") -> tuple[Payload, bytes]:
        """Return the reply, and the state to give back with the next message of this round.

        Raises
        ------
        AggregationFailed, FormatError, ReleaseRefused
            Nothing was sent.
        """
        try:
            if message.get("version") != VERSION or kind not in KINDS:
                raise FormatError(f"a message of kind {kind!r}, version {message.get('version')!r}; expected {VERSION}")
            if message["task"] != self.task.to_json():
                raise AggregationFailed(f"client {self.number}: the server has another task than this party agreed to")
            facts = round_of(self.task, message["session"], int(message["length"]), message["asked"])
            if kind == "advertise":
                client = ClientRound(facts, self.number, self.identity)
                reply = packed_ads([client.advertise()])
                return reply, client.dump()
            client = ClientRound.load(facts, self.number, self.identity, state)
            if kind in _ONCE and not self.once.first(message["session"], kind):
                raise AggregationFailed(
                    f"client {self.number}: {kind} of this round was answered before; nothing was sent"
                )
            reply = getattr(self, f"_{kind}")(client, message)
        except (KeyError, TypeError, ValueError, IndexError, AttributeError) as error:
            if isinstance(error, FormatError):
                raise
            raise FormatError(f"a message of kind {kind!r} that cannot be read: {type(error).__name__}") from None
        return reply, client.dump()

    def _share(self, client: ClientRound, message: Mapping[str, Any]) -> Payload:
        return packed_map(client.share(unpacked_ads(message)))

    def _mask(self, client: ClientRound, message: Mapping[str, Any]) -> Payload:
        answers = [masks.centred(masks.unpacked(a, len(a) * 8 // self.task.bits, self.task.bits), self.task.bits)
                   for a in message["answers"]]  # fmt: skip
        party = self.party()
        now = party.step(answers)
        if now.length != client.round.length or now.digest != message["asked"]:
            raise AggregationFailed(f"client {self.number}: the server asks for another round than the answers lead to")
        vector: NDArray[np.int64] = party.noisy(now.questions)
        return {"vector": client.mask(vector, unpacked_map(message))}

    def _confirm(self, client: ClientRound, message: Mapping[str, Any]) -> Payload:
        return {"signature": client.confirm(list(message["survivors"]))}

    def _unmask(self, client: ClientRound, message: Mapping[str, Any]) -> Payload:
        found = client.unmask(unpacked_map(message))
        return {**packed_map(found.seeds, "seed_"), **packed_map(found.mask_keys, "key_")}
