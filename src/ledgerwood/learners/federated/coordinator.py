"""The server's side of a federated training, over any transport that can send to many nodes at once."""

from __future__ import annotations

import contextlib
import json
import secrets
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from ledgerwood import _files
from ledgerwood._rounding import format_up
from ledgerwood.accounting import Gaussian, Ledger
from ledgerwood.accounting.adjacency import Neighbours
from ledgerwood.errors import AggregationFailed, FormatError
from ledgerwood.learners.federated import masking
from ledgerwood.learners.federated.lockstep import Step, server_step, split_answers
from ledgerwood.learners.federated.party import (
    REFUSED,
    VERSION,
    Payload,
    packed_ads,
    packed_map,
    raw,
    round_of,
    unpacked_ads,
    unpacked_map,
    unpacked_unmasking,
)
from ledgerwood.learners.federated.protocol import Unmasking
from ledgerwood.learners.federated.secure_aggregation import ServerRound
from ledgerwood.learners.federated.task import FederatedTask
from ledgerwood.learners.training.statement import ROWS_ASSUMED, cautions
from ledgerwood.learners.trees.planned_noise import GaussianSums

__all__ = ["Coordinator", "Exchange", "Federation"]

T = TypeVar("T")
Exchange: TypeAlias = Callable[[str, Mapping[int, Payload]], Mapping[int, Payload]]
"""Sends a message of one kind to each node and returns the replies that came; a silent node is missing."""


@dataclass(frozen=True, slots=True, eq=False)
class Federation:
    """A finished training: the model and what it took.

    ``survivors`` are the parties whose sums each round opened, ``refusals`` what the others said.

    >>> from ledgerwood.learners import Schema
    >>> task = FederatedTask(Schema(bounds={0: (0, 1)}, classes=[0, 1]), (0,), {1: "aa" * 32, 2: "bb" * 32},
    ...     threshold=2, rows=100, recipe="tr_cyc")
    >>> begun = Federation(task, None, (), rounds=0, failed=0, survivors=(), refusals=(), bytes_received=0)
    >>> "one record added or removed of any one party" in begun.statement()
    True
    """

    task: FederatedTask
    model: Any
    answers: tuple[NDArray[np.int64], ...]
    rounds: int
    failed: int
    survivors: tuple[tuple[int, ...], ...]
    refusals: tuple[str, ...]
    bytes_received: int

    def save(self, path: str | Path) -> None:
        """Write the task and the opened totals as JSON: the model is a function of them."""
        summary = {
            name: getattr(self, name) for name in ("rounds", "failed", "survivors", "refusals", "bytes_received")
        }
        answers = [answer.tolist() for answer in self.answers]
        body = {"format": "ledgerwood.federation", "version": VERSION, "task": self.task.to_json(), "answers": answers}
        Path(path).write_text(json.dumps({**body, **summary}), encoding="utf-8")

    @classmethod
    def load(cls, path: str | Path) -> Federation:
        """Read what :meth:`save` wrote, and run the loop over the totals again."""
        try:
            data = _files.parse_json(Path(path).read_bytes())
            if (data["format"], data["version"]) != ("ledgerwood.federation", VERSION):
                raise FormatError("a federation of another format or version")
            task = FederatedTask.from_json(data["task"])
            answers = tuple(np.array(answer, dtype=np.int64) for answer in data["answers"])
            model = server_step(task, answers).model
            rounds, failed, received = (int(data[name]) for name in ("rounds", "failed", "bytes_received"))
            survivors = tuple(tuple(int(node) for node in one) for one in data["survivors"])
            refusals = tuple(str(reason) for reason in data["refusals"])
            return cls(task, model, answers, rounds, failed, survivors, refusals, received)
        except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
            if isinstance(error, FormatError):
                raise
            raise FormatError(f"not a federation: {type(error).__name__}") from None

    def probabilities(self, X: Any) -> NDArray[np.float64]:
        """Return class probabilities of a table with the task's columns."""
        return self.task.job.probabilities(self.model, X)

    def statement(self) -> str:
        """Return the guarantee as full sentences, with what it assumes."""
        task = self.task
        relation = Neighbours(str(task.schema.neighbours)).sentence
        covers, accounting, who, trusted = _WORDS[task.noise]
        return (
            f"This model{covers} is (epsilon={format_up(task.epsilon)}, delta={format_up(task.delta)})-differentially "
            f"private for {relation} of any one party, by {accounting} over "
            f"{sum(run.times for run in task.plan.runs())} planned releases. "
            f"{who.format(honest=task.honest)} The server opened only sums of at least {task.threshold} of "
            f"{len(task.identities)} parties. Assumed: {trusted.format(colluding=task.colluding)}; the roster of "
            f"identity keys is right; the schema is public; a record lies with one party, and every "
            f"party has one; {ROWS_ASSUMED}. In every party a cell that cannot be read as its column's kind counted as "
            f"missing or unknown, and a record without a usable label as absent: neither made a party refuse. Every "
            f"attempt of a round was charged to every party's ledger ({self.failed} failed); the rounds were "
            f"answered by {', '.join(str(len(one)) for one in self.survivors)} parties."
            + "".join(f" {caution}" for caution in cautions(task.epsilon, task.delta, task.rows))
        )


_WORDS = {
    "shares": (
        ", and everything the server saw,",
        "Rényi accounting of Skellam noise",
        "Each party drew its share of the noise itself, sized for {honest} honest parties.",
        "the server works with at most {colluding} parties",
    ),
    "central": (
        " (not what the server saw)",
        "exact accounting of Gaussian noise",
        "The server drew the noise.",
        "the server is trusted with exact sums: it adds the noise, forgets the sums and follows the protocol; it "
        "works with at most {colluding} parties",
    ),
    "local": (
        ", and everything that left a record's party,",
        "Rényi accounting of Skellam noise",
        "Every record's vector carried the whole noise by itself, drawn by its party.",
        "a record's own party is trusted with it, and with nothing else; the number of records is public",
    ),
}


@dataclass
class Coordinator:
    """Asks for rounds until the model is complete.

    Parameters
    ----------
    task
        The public metadata.
    exchange
        The transport.
    progress
        Called after each round with (rounds done, survivors).

    Examples
    --------
    Three parties in memory; over a network the exchange sends and waits.

    >>> from ledgerwood.learners import Schema
    >>> from ledgerwood.learners.federated import Node, Party, identities
    >>> keys, roster = identities(3)
    >>> task = FederatedTask(Schema(bounds={0: (0, 1)}, classes=[0, 1]), (0,), roster, threshold=2, rows=100,
    ...     recipe="tr_cyc", options={"n_trees": 2, "max_depth": 1})
    >>> rows = np.array([[0.2], [0.4], [0.9]])
    >>> nodes = {number: Node(task, number, key, lambda: Party(task, rows, [0, 0, 1])) for number, key in keys.items()}
    >>> state = dict.fromkeys(keys, b"")
    >>> def exchange(kind, messages):
    ...     replies = {}
    ...     for number, message in messages.items():
    ...         replies[number], state[number] = nodes[number].handle(kind, message, state[number])
    ...     return replies
    >>> made = Coordinator(task, exchange).train(keys)
    >>> made.rounds, made.survivors, made.probabilities(rows).shape
    (2, ((1, 2, 3), (1, 2, 3)), (3, 2))
    """

    task: FederatedTask
    exchange: Exchange
    progress: Callable[[int, int], None] = lambda done, survivors: None
    received: int = field(default=0, init=False)
    failures: list[str] = field(default_factory=list, init=False)
    refusals: list[str] = field(default_factory=list, init=False)
    ledger: Ledger = field(init=False)

    def __post_init__(self) -> None:
        self.ledger = Ledger(plan=self.task.plan)

    def train(self, nodes: Iterable[int]) -> Federation:
        """Train with the nodes that are there.

        Raises
        ------
        AggregationFailed
            More rounds failed than ``task.spare_rounds``; what was opened until then stays spent.
        """
        present = sorted(nodes)
        answers: list[NDArray[np.int64]] = []
        rounds = failed = 0
        survivors: list[tuple[int, ...]] = []
        while not (now := server_step(self.task, answers)).done:
            try:
                total, answered = self._round(now, answers, present)
            except AggregationFailed as error:
                self.failures.append(str(error))
                failed += 1
                if failed > self.task.spare_rounds:
                    refused = "".join(f" {reason}." for reason in dict.fromkeys(self.refusals))
                    raise AggregationFailed(f"{error}.{refused}") from None
                continue
            answers += self._noised(now, split_answers(now.queries, total))
            rounds += 1
            survivors.append(tuple(answered))
            self.progress(rounds, len(answered))
        refusals = tuple(dict.fromkeys(self.refusals))
        return Federation(
            self.task, now.model, tuple(answers), rounds, failed, tuple(survivors), refusals, self.received
        )

    def _noised(self, now: Step, totals: list[NDArray[np.int64]]) -> list[NDArray[np.int64]]:
        """Add the noise to opened sums where that is the server's part."""
        if self.task.noise != "central":
            return totals
        found = []
        for query, total in zip(now.queries, totals, strict=True):
            cost = self.task.plan[query.label].priced(self.task.plan.neighbours)
            assert isinstance(cost, Gaussian)
            found.append(self.ledger.release(GaussianSums(cost, query.grid.l2), total, label=query.label))
        return found

    def _round(
        self, now: Step, answers: list[NDArray[np.int64]], nodes: list[int]
    ) -> tuple[NDArray[np.int64], list[int]]:
        round_ = round_of(self.task, secrets.token_bytes(32), now.length, now.digest)
        server = ServerRound(round_)
        common = {
            "version": VERSION, "task": self.task.to_json(), "session": round_.session, "length": round_.length,
            "asked": round_.subject,
        }  # fmt: skip
        found = self._query("advertise", dict.fromkeys(nodes, common))
        read = self._read(unpacked_ads, found)
        ads = server.keys([ad for node, own in read.items() for ad in own if ad.node == node])
        everyone = packed_ads(ads)
        found = self._query("share", {ad.node: {**common, **everyone} for ad in ads})
        envelopes = server.envelopes(self._read(unpacked_map, found))
        bits = self.task.bits
        so_far = [masking.packed(masking.reduced(answer, bits), bits) for answer in answers]
        found = self._query(
            "mask",
            {node: {**common, "answers": so_far, **packed_map(inbox)} for node, inbox in envelopes.items()},
        )
        survivors = server.survivors(self._read(lambda reply: raw(reply["vector"]), found))
        found = self._query("confirm", {node: {**common, "survivors": survivors} for node in survivors})
        signed = server.confirmed(self._read(lambda reply: raw(reply["signature"]), found))
        found = self._query("unmask", {node: {**common, **packed_map(signed)} for node in signed})
        opened = self._read(unpacked_unmasking, found)
        return server.total([Unmasking(node, *maps) for node, maps in opened.items()]), survivors

    def _read(self, read: Callable[[Payload], T], replies: Mapping[int, Payload]) -> dict[int, T]:
        """Read replies; a node whose reply cannot be read is as good as silent."""
        found = {}
        for node, reply in replies.items():
            with contextlib.suppress(KeyError, TypeError, ValueError):
                found[node] = read(reply)
        return found

    def _query(self, kind: str, messages: Mapping[int, Payload]) -> Mapping[int, Payload]:
        replies = self.exchange(kind, messages)
        self.received += sum(_size(reply) for reply in replies.values())
        self.refusals += [f"party {node}: {reply[REFUSED]}" for node, reply in replies.items() if REFUSED in reply]
        return {node: reply for node, reply in replies.items() if REFUSED not in reply}


def _size(value: Any) -> int:
    if isinstance(value, bytes | str):
        return len(value)
    if isinstance(value, Mapping):
        return sum(_size(v) for v in value.values())
    return sum(_size(v) for v in value) if isinstance(value, list) else 8
