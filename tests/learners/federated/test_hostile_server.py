"""A server that mixes, forges, replays and forgets at will: whatever it collects opens no more than one noisy sum.

Hypothesis plays the server. After every message the test works out, from everything seen and from what colluding
parties know, which sums could be unmasked: a linear combination of masked vectors in which every unknown mask cancels.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from ledgerwood.errors import LedgerwoodError
from ledgerwood.learners import Schema
from ledgerwood.learners.federated import masking
from ledgerwood.learners.federated.lockstep import server_step
from ledgerwood.learners.federated.party import VERSION, Node, Party, Payload, packed_map, round_of
from ledgerwood.learners.federated.protocol import Round, named_set
from ledgerwood.learners.federated.secure_aggregation import ClientRound
from ledgerwood.learners.federated.task import FederatedTask

KINDS = ("advertise", "share", "mask", "confirm", "unmask", "done")


@dataclass
class Setting:
    """Honest and colluding parties of one task, and two histories that a server may tell."""

    honest: int
    colluding: int
    threshold: int

    def __post_init__(self) -> None:
        self.keys = {node: Ed25519PrivateKey.generate() for node in range(1, self.honest + self.colluding + 1)}
        self.task = FederatedTask(
            Schema(bounds={0: (0, 1)}, classes=[0, 1]), (0,),
            {node: key.public_key().public_bytes_raw().hex() for node, key in self.keys.items()},
            threshold=self.threshold, colluding=self.colluding, rows=100, recipe="tr", epsilon=8.0, delta=1e-5,
            spare_rounds=1, options={"n_trees": 2, "max_depth": 1, "batch": 1, "n_bins": 4},
        )  # fmt: skip
        first = server_step(self.task, [])
        told = [np.full(q.value.size, (-1) ** i * 2**20, dtype=np.int64) for i, q in enumerate(first.queries)]
        self.histories = [[], told]
        self.steps = [first, server_step(self.task, told)]
        assert [s.length for s in self.steps] == [self.steps[0].length] * 2
        assert self.steps[0].digest != self.steps[1].digest


SETTINGS = [Setting(3, 0, 2), Setting(3, 1, 3), Setting(5, 0, 3)]
SESSIONS = [bytes([1]) * 32, bytes([2]) * 32]


@dataclass
class Seen:
    """What the server has of one session."""

    ads: list[tuple[int, tuple[bytes, bytes, bytes]]] = field(default_factory=list)
    envelopes: dict[tuple[int, int], list[bytes]] = field(default_factory=dict)
    vectors: dict[int, tuple[int, frozenset[int]]] = field(default_factory=dict)  # who: history, masked towards whom
    signatures: dict[tuple[int, tuple[int, ...]], bytes] = field(default_factory=dict)
    seeds: dict[int, set[int]] = field(default_factory=dict)  # whose: shares held by whom
    mask_keys: dict[int, set[int]] = field(default_factory=dict)
    answered: list[tuple[int, str]] = field(default_factory=list)


class HostileServer(RuleBasedStateMachine):
    """Every rule sends one message; what is honest in it and what not is drawn."""

    @initialize(
        which=st.sampled_from(range(len(SETTINGS))),
        told=st.one_of(st.just([0] * 5), st.lists(st.sampled_from([0, 0, 0, 1]), min_size=5, max_size=5)),
        small=st.one_of(st.just([False] * 5), st.lists(st.booleans(), min_size=5, max_size=5)),
    )
    def start(self, which: int, told: list[int], small: list[bool]) -> None:
        """Each party hears the history ``told`` as a rule, and a ``small`` set of survivors or all of them."""
        self.facts, self.told, self.small = SETTINGS[which], told, small
        task = self.facts.task
        self.honest = list(range(1, self.facts.honest + 1))
        self.parties = {n: Party(task, np.full((5, 1), 0.5), np.zeros(5, dtype=int)) for n in self.honest}
        self.nodes = {
            n: Node(task, n, self.facts.keys[n], lambda n=n: self.parties[n])  # type: ignore[misc]
            for n in self.honest
        }
        self.states: dict[tuple[int, int], list[bytes]] = {}
        self.next = {(n, s): 0 for n in self.honest for s in range(2)}
        self.seen = [Seen(), Seen()]
        for s in range(2):
            self.collude(s)

    def common(self, session: int, history: int) -> Payload:
        step = self.facts.steps[history]
        facts = {"version": VERSION, "task": self.facts.task.to_json(), "session": SESSIONS[session]}
        return {**facts, "length": step.length, "asked": step.digest}

    def round(self, session: int) -> Round:
        step = self.facts.steps[0]
        return round_of(self.facts.task, SESSIONS[session], step.length, step.digest)

    def collude(self, session: int) -> None:
        """Colluders advertise as honest parties do; the server knows everything that they learn."""
        for n in range(self.facts.honest + 1, self.facts.honest + self.facts.colluding + 1):
            client = ClientRound(self.round(session), n, self.facts.keys[n])
            ad = client.advertise()
            self.seen[session].ads.append((n, (ad.mask_key, ad.envelope_key, ad.signature)))

    # ---- the server's moves

    @rule(data=st.data(), session=st.sampled_from([0, 0, 0, 1]))
    def ask_everyone(self, data: st.DataObject, session: int) -> None:
        """The next message of the protocol to every party, with a lie here and there."""
        stage = min(self.next[n, session] for n in self.honest)
        for node in self.honest:
            if self.next[node, session] == stage < 5:
                self.send(data, node, session, KINDS[stage])

    @rule(data=st.data(), node=st.integers(1, 5), session=st.integers(0, 1), kind=st.sampled_from(KINDS[:-1]))
    def ask_out_of_turn(self, data: st.DataObject, node: int, session: int, kind: str) -> None:
        self.send(data, min(node, self.facts.honest), session, kind, forgetful=data.draw(st.booleans()))

    def send(self, data: st.DataObject, node: int, session: int, kind: str, forgetful: bool = False) -> None:
        history = 1 - self.told[node - 1] if self.rarely(data) else self.told[node - 1]
        source = 1 - session if self.rarely(data) else session  # messages of the other session
        try:
            message = {**self.common(session, history), **getattr(self, f"_{kind}")(data, node, source, history)}
        except LookupError:  # nothing of that kind was seen yet
            return
        if self.rarely(data):
            message = self.damaged(data, message)
        stored = self.states.get((node, session), [b""])
        state = data.draw(st.sampled_from(stored)) if forgetful else stored[-1]  # a store rolled back
        before = len(self.parties[node].ledger.journal())
        try:
            reply, after = self.nodes[node].handle(kind, message, state)
        except LedgerwoodError:
            return
        self.states.setdefault((node, session), []).append(after)
        self.next[node, session] = KINDS.index(kind) + 1
        seen = self.seen[session]
        if kind in ("mask", "confirm", "unmask"):
            seen.answered.append((node, kind))
        self.keep(kind, node, seen, message, reply, history)
        charged = len(self.parties[node].ledger.journal()) - before
        assert charged == (len(self.facts.steps[0].queries) if kind == "mask" else 0)

    def rarely(self, data: st.DataObject) -> bool:
        return data.draw(st.integers(0, 24)) == 24

    def damaged(self, data: st.DataObject, message: Payload) -> Payload:
        name = data.draw(st.sampled_from(sorted(message)))
        value = message[name]
        if isinstance(value, list) and value:
            spot = data.draw(st.integers(0, len(value) - 1))
            other = data.draw(st.sampled_from([b"", b"x", 0, -1, None, value[-1]]))
            return {**message, name: [*value[:spot], other, *value[spot + 1 :]]}
        if isinstance(value, bytes):
            return {**message, name: data.draw(st.sampled_from([value[:-1], value + b"x", b"", bytes(32)]))}
        return {**message, name: data.draw(st.sampled_from([None, "", -1, 10**30]))}

    def _advertise(self, data: st.DataObject, node: int, source: int, history: int) -> Payload:
        return {}

    def _share(self, data: st.DataObject, node: int, source: int, history: int) -> Payload:
        latest = dict(self.seen[source].ads)
        if latest and self.rarely(data):
            chosen = data.draw(st.lists(st.sampled_from(self.seen[source].ads), min_size=1, max_size=6))
        else:
            chosen = list(latest.items())
        parts = zip(*(keys for _, keys in chosen))
        names = ("mask_keys", "envelope_keys", "signatures")
        return {"nodes": [n for n, _ in chosen], **{name: list(part) for name, part in zip(names, parts)}}

    def _mask(self, data: st.DataObject, node: int, source: int, history: int) -> Payload:
        inbox = {a: all_[-1] for (a, b), all_ in self.seen[source].envelopes.items() if b == node}
        if self.rarely(data) and inbox:
            inbox = {n: inbox[n] for n in data.draw(st.sets(st.sampled_from(sorted(inbox))))}
        bits = self.facts.task.bits
        answers = [masking.packed(masking.reduced(a, bits), bits) for a in self.facts.histories[history]]
        return {"answers": answers, **packed_map(inbox)}

    def _confirm(self, data: st.DataObject, node: int, source: int, history: int) -> Payload:
        there = sorted(self.seen[source].vectors)
        if not self.rarely(data):  # one of two sets, so that lies can agree with each other
            return {"survivors": there[: self.facts.threshold] if self.small[node - 1] else there}
        return {"survivors": sorted({node, *data.draw(st.sets(st.sampled_from(sorted(self.facts.keys))))})}

    def _unmask(self, data: st.DataObject, node: int, source: int, history: int) -> Payload:
        sets = sorted({named for _, named in self.seen[source].signatures if node in named})
        if not sets:
            raise LookupError
        named = data.draw(st.sampled_from(sets))
        found = {n: sig for (n, s), sig in self.seen[source].signatures.items() if s == named}
        for n in range(self.facts.honest + 1, self.facts.honest + self.facts.colluding + 1):  # they sign anything
            if n in named:
                found[n] = self.facts.keys[n].sign(named_set(self.round(source), named))
        return packed_map(found)

    def keep(self, kind: str, node: int, seen: Seen, message: Payload, reply: Payload, history: int) -> None:
        """Note what the server learned."""
        if kind == "advertise":
            seen.ads.append((node, (reply["mask_keys"][0], reply["envelope_keys"][0], reply["signatures"][0])))
        elif kind == "share":
            for to, envelope in zip(reply["nodes"], reply["data"]):
                seen.envelopes.setdefault((node, to), []).append(envelope)
        elif kind == "mask":
            seen.vectors[node] = history, frozenset(message["nodes"])
        elif kind == "confirm":
            seen.signatures[node, tuple(sorted(message["survivors"]))] = reply["signature"]
        elif kind == "unmask":
            for held, prefix in ((seen.seeds, "seed_"), (seen.mask_keys, "key_")):
                for whose, share in zip(reply[f"{prefix}nodes"], reply[f"{prefix}data"]):
                    assert len(share) == masking.SHARE_BYTES
                    held.setdefault(whose, set()).add(node)

    # ---- what it all opens

    @invariant()
    def no_step_of_a_session_is_answered_twice(self) -> None:
        for seen in getattr(self, "seen", []):
            assert len(set(seen.answered)) == len(seen.answered)

    @invariant()
    def at_most_one_sum_opens_and_it_has_its_noise(self) -> None:
        for seen in getattr(self, "seen", []):
            enough = self.facts.threshold - self.facts.colluding  # colluders hold a share of everything
            seeds = {n for n in self.honest if len(seen.seeds.get(n, ())) >= enough}
            keys = {n for n in self.honest if len(seen.mask_keys.get(n, ())) >= enough}
            assert not seeds & keys
            openable = [c for c in self.components(seen, keys) if c <= seeds]
            assert len(openable) <= 1
            for component in openable:
                assert len(component) >= enough
                assert len({seen.vectors[n][0] for n in component}) == 1

    def components(self, seen: Seen, keys: set[int]) -> list[set[int]]:
        """Sets of vectors that unknown pairwise masks tie together; a mask towards nobody's vector ties it to 0."""
        tied = {n: {n} for n in seen.vectors}
        lost = set()
        for n, (_, towards) in seen.vectors.items():
            for other in towards & set(self.honest) - keys if n not in keys else ():
                if other not in seen.vectors:
                    lost.add(n)
                    continue
                joined = tied[n] | tied[other]
                for member in joined:
                    tied[member] = joined
        found = {frozenset(group) for group in tied.values() if not group & lost}
        return [set(group) for group in found]

    def teardown(self) -> None:
        opened.extend(len(seen.seeds) for seen in getattr(self, "seen", []) if seen.seeds)


opened: list[int] = []
"""Rounds that came to their end: without any the invariants would hold of nothing."""

HostileServer.TestCase.settings = settings(
    max_examples=60,
    stateful_step_count=20,
    deadline=None,
    derandomize=True,
    phases=[Phase.generate],
    suppress_health_check=list(HealthCheck),
)


class TestHostileServer(HostileServer.TestCase):  # type: ignore[misc,name-defined]
    """Plays the games."""

    def runTest(self) -> None:
        super().runTest()
        assert len(opened) > 3
