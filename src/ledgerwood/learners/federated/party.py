"""A holder of rows: it answers queries about them, each charged to its own ledger before its noise is drawn.

A :class:`Party` has the rows, the ledger and the noise. A :class:`Node` puts it behind a transport: it answers five
kinds of message, dictionaries of bytes, numbers and lists of them that any transport can carry. It has the task from
its own configuration; a server with another task is refused before anything is read.

Between two messages a client's state lives with its transport. If that loses a step (a process killed after its reply
left, a store rolled back), the same masks would cover a second vector, and the difference of the two would be seen
without them. So a party notes each step of a round in its own folder before it takes it (:class:`Once`), and never
takes one twice.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from numpy.typing import NDArray

from ledgerwood.accounting import Ledger
from ledgerwood.errors import AggregationFailed, FormatError, ParameterError
from ledgerwood.learners.data.columns import Ints
from ledgerwood.learners.data.labels import labels_of, usable_labels
from ledgerwood.learners.data.table import read_columns
from ledgerwood.learners.federated import masking
from ledgerwood.learners.federated.distributed_noise import SkellamShare
from ledgerwood.learners.federated.lockstep import Step, SumQuery, step
from ledgerwood.learners.federated.protocol import Advertisement, Round
from ledgerwood.learners.federated.secure_aggregation import ClientRound
from ledgerwood.learners.federated.task import FederatedTask
from ledgerwood.learners.linear.integer_rows import MAX_ROWS
from ledgerwood.learners.training.public_metadata import check_rows
from ledgerwood.mechanisms.randomness import Rng

__all__ = ["KINDS", "REFUSED", "Node", "Once", "Party", "Payload", "round_of"]


@dataclass
class Once:
    """Says whether a step of a session is taken for the first time; durable if it has a folder.

    >>> once = Once()
    >>> once.first(bytes(32), "mask"), once.first(bytes(32), "mask")
    (True, False)
    """

    folder: Path | None = None
    _seen: set[tuple[bytes, str]] = field(default_factory=set, init=False, repr=False)

    def first(self, session: bytes, step: str) -> bool:
        """Note the step and return whether it is new. On disk before the answer."""
        if self.folder is None:
            new = (session, step) not in self._seen
            self._seen.add((session, step))
            return new
        self.folder.mkdir(parents=True, exist_ok=True)
        try:
            os.close(os.open(self.folder / f"{session.hex()}.{step}", os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
        except FileExistsError:
            return False
        folder = os.open(self.folder, os.O_RDONLY)
        try:
            os.fsync(folder)  # the entry itself, not the empty file, is what must last
        finally:
            os.close(folder)
        return True


class Party:
    """One holder of rows.

    Parameters
    ----------
    task
        The public metadata that all agreed on.
    X, y
        This party's rows. Values never raise: they are clipped or binned by the schema, and a record whose label is not
        a declared class or a finite number counts as absent.
    ledger
        Pays for every attempt of every round, failed ones too; by default one that follows ``task.plan``.

    Examples
    --------
    >>> from ledgerwood.learners import Schema
    >>> schema = Schema(bounds={0: (0, 1)}, classes=[0, 1])
    >>> task = FederatedTask(schema, (0,), {1: "aa" * 32, 2: "bb" * 32}, threshold=2, rows=100, recipe="tr_cyc")
    >>> party = Party(task, [[0.2], [0.7]], [0, 1])
    >>> party.ledger.remaining().epsilon <= 1.0
    True
    """

    def __init__(self, task: FederatedTask, X: Any, y: Any, *, ledger: Ledger | None = None) -> None:
        self.task = task
        self.ledger = Ledger(plan=task.plan) if ledger is None else ledger
        columns = read_columns(X, task.schema)
        if tuple(c.name for c in columns.columns) != task.columns:
            rule = f"have the columns of the task, {list(task.columns)}, in this order"
            raise ParameterError("X", rule, [c.name for c in columns.columns])
        values, usable = usable_labels(y, task.schema.classes)
        if len(usable) != columns.rows:
            raise ParameterError("y", "have a label for each row of X", "another number")
        self._count = columns.rows
        check_rows(self._count, MAX_ROWS)
        table = columns.take(np.flatnonzero(usable)).table()
        labels = labels_of(values[usable], task.schema.classes, task.schema.target_bounds)
        self._rows = task.job.rows(table, labels)

    def step(self, answers: Sequence[Ints]) -> Step:
        """Return the next round's queries with this party's exact sums. They must not leave the party as they are."""
        return step(self.task, self._rows, answers)

    def noisy(self, queries: Sequence[SumQuery], rng: Rng = None) -> Ints:
        """Return the round's vector with this party's noise, each query charged before its noise is drawn."""
        parts = [self._noisy(query, rng) for query in queries]
        return np.concatenate(parts)

    def _noisy(self, query: SumQuery, rng: Any) -> Ints:
        """Charge this party's ledger and return its sums with its share of the noise."""
        value, label = query.value.ravel(), query.label
        if self.task.noise == "central":  # the server, trusted with exact sums, draws the noise
            self.ledger.charge(self.task.plan[label].priced(self.task.plan.neighbours), label)
            return value
        return self.ledger.release(self._mechanism(query), value, label=label, rng=rng)

    def _mechanism(self, query: SumQuery) -> SkellamShare:
        task = self.task
        cost = task.plan[query.label].priced(task.plan.neighbours)
        variance = task.variance(query.label, query.grid)
        if task.noise == "local":  # every record adds the whole noise by itself; their number is public here
            return SkellamShare(cost, variance * max(self._count, 1), 1)
        return SkellamShare(cost, variance, task.honest)


Payload: TypeAlias = dict[str, Any]

KINDS = ("advertise", "share", "mask", "confirm", "unmask")

_ONCE = ("mask", "confirm", "unmask")

REFUSED = "refused"
"""The key of a reply that says why a party does not answer."""

VERSION = 3


def round_of(task: FederatedTask, session: bytes, length: int, asked: bytes) -> Round:
    """Return the public metadata of one aggregation."""
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
            round_ = round_of(self.task, message["session"], int(message["length"]), message["asked"])
            if kind == "advertise":
                client = ClientRound(round_, self.number, self.identity)
                reply = packed_ads([client.advertise()])
                return reply, client.dump()
            client = ClientRound.load(round_, self.number, self.identity, state)
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
        answers = [masking.centred(masking.unpacked(a, len(a) * 8 // self.task.bits, self.task.bits), self.task.bits)
                   for a in message["answers"]]  # fmt: skip
        party = self.party()
        now = party.step(answers)
        if now.length != client.round.length or now.digest != message["asked"]:
            raise AggregationFailed(f"client {self.number}: the server asks for another round than the answers lead to")
        vector: NDArray[np.int64] = party.noisy(now.queries)
        return {"vector": client.mask(vector, unpacked_map(message))}

    def _confirm(self, client: ClientRound, message: Mapping[str, Any]) -> Payload:
        return {"signature": client.confirm(list(message["survivors"]))}

    def _unmask(self, client: ClientRound, message: Mapping[str, Any]) -> Payload:
        found = client.unmask(unpacked_map(message))
        return {**packed_map(found.seeds, "seed_"), **packed_map(found.mask_keys, "key_")}
