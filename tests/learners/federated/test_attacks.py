"""A server that lies, and a transport that forgets: what it asks for is refused, and what it gets opens nothing."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from numpy.typing import NDArray

from ledgerwood.errors import AggregationFailed, LedgerwoodError
from ledgerwood.learners import Schema
from ledgerwood.learners.federated import masking
from ledgerwood.learners.federated.lockstep import server_step
from ledgerwood.learners.federated.party import VERSION, Node, Once, Party, Payload, packed_map
from ledgerwood.learners.federated.protocol import Round, Unmasking, named_set, pair_mask, self_mask
from ledgerwood.learners.federated.secure_aggregation import ClientRound, ServerRound
from ledgerwood.learners.federated.task import FederatedTask

Ints = NDArray[np.int64]
LENGTH = 4


class Roster:
    """Clients of one round up to their masked vectors, which a server of the attacker's now holds."""

    def __init__(self, nodes: Sequence[int], threshold: int, colluding: int = 0) -> None:
        self.keys = {node: Ed25519PrivateKey.generate() for node in nodes}
        identities = {node: key.public_key().public_bytes_raw() for node, key in self.keys.items()}
        self.round = Round(bytes(range(32)), identities, LENGTH, 32, threshold, colluding)
        self.clients = {node: ClientRound(self.round, node, key) for node, key in self.keys.items()}
        self.server = ServerRound(self.round)
        self.ads = self.server.keys([client.advertise() for client in self.clients.values()])
        self.envelopes = self.server.envelopes({n: c.share(self.ads) for n, c in self.clients.items()})
        self.values = {node: np.full(LENGTH, 100 * node, dtype=np.int64) for node in nodes}
        self.masked = {n: c.mask(self.values[n], self.envelopes[n]) for n, c in self.clients.items()}


LIES = {1: [1, 2, 3], 2: [1, 2, 4], 3: [1, 2, 3], 4: [1, 2, 4], 5: [1, 2, 5]}
"""Five clients, threshold three: each is told a set of three with itself in it, and each of 3, 4 and 5 is left out of
the sets of three clients. Without signatures the answers would give the seeds of 1 and 2 and the keys of 3, 4, 5."""


def test_different_sets_sent_to_different_clients_would_open_a_sum_of_two() -> None:
    """Why the fourth message exists: old-style answers to LIES open a sum below the threshold."""
    roster = Roster([1, 2, 3, 4, 5], threshold=3)
    seeds: dict[int, dict[int, bytes]] = {}
    keys: dict[int, dict[int, bytes]] = {}
    for node, named in LIES.items():
        for other, (key, seed) in roster.clients[node]._shares.items():
            held = seeds if other in named else keys
            held.setdefault(other, {})[roster.round.place(node)] = seed if other in named else key
    found_seeds = {n: masking.recover(shares, threshold=3) for n, shares in seeds.items() if len(shares) >= 3}
    found_keys = {n: masking.recover(shares, threshold=3) for n, shares in keys.items() if len(shares) >= 3}
    assert sorted(found_seeds) == [1, 2] and sorted(found_keys) == [3, 4, 5]
    total = np.zeros(LENGTH, dtype=np.uint64)
    for node in (1, 2):
        total += np.frombuffer(roster.masked[node], dtype="<u4")
        total -= self_mask(roster.round, found_seeds[node])
        for gone, secret in found_keys.items():
            private = X25519PrivateKey.from_private_bytes(secret)
            total += pair_mask(roster.round, private, gone, node, roster.ads[node - 1].mask_key)
    assert (total & np.uint64(2**32 - 1)).tolist() == [300] * LENGTH


def test_different_sets_sent_to_different_clients_open_nothing() -> None:
    roster = Roster([1, 2, 3, 4, 5], threshold=3)
    signatures = {node: roster.clients[node].confirm(named) for node, named in LIES.items()}
    for node in LIES:
        with pytest.raises(AggregationFailed, match="signed the same set"):
            roster.clients[node].unmask(signatures)


@pytest.mark.parametrize(("n", "threshold", "colluding"), [(3, 2, 0), (4, 3, 0), (4, 4, 2), (5, 4, 2)])
def test_no_two_sets_gather_enough_signatures_whatever_the_server_says_to_whom(
    n: int, threshold: int, colluding: int
) -> None:
    """All ways to tell each honest client one of two sets; colluders sign both."""
    Round(bytes(32), {i: bytes([i]) * 32 for i in range(n)}, 1, 32, threshold, colluding)
    honest = n - colluding
    for told in itertools.product((0, 1), repeat=honest):
        assert min(told.count(0), told.count(1)) + colluding < threshold


def test_a_signature_of_another_set_round_or_client_does_not_count() -> None:
    roster = Roster([1, 2, 3], threshold=2)
    mine = roster.clients[1].confirm([1, 2])
    other_set = roster.clients[2].confirm([1, 2, 3])
    for theirs in (other_set, mine, b"", b"x" * 64):
        copy = ClientRound.load(roster.round, 1, roster.keys[1], roster.clients[1].dump())
        with pytest.raises(AggregationFailed, match="1 of at least 2 survivors signed"):
            copy.unmask({1: mine, 2: theirs})
    elsewhere = roster.keys[2].sign(named_set(replace(roster.round, session=bytes(32)), [1, 2]))
    with pytest.raises(AggregationFailed, match="1 of at least 2 survivors signed"):
        roster.clients[1].unmask({1: mine, 2: elsewhere})


def test_a_client_gives_a_share_of_the_seed_or_of_the_key_of_another_and_never_both() -> None:
    roster = Roster([1, 2, 3], threshold=2)
    signed = {n: roster.clients[n].confirm([1, 2]) for n in (1, 2)}
    for node in (1, 2):
        answer = roster.clients[node].unmask(signed)
        assert not answer.seeds.keys() & answer.mask_keys.keys()
        assert (set(answer.seeds), set(answer.mask_keys)) == ({1, 2}, {3})
        with pytest.raises(AggregationFailed, match="out of turn"):
            roster.clients[node].confirm([1, 2, 3])
        with pytest.raises(AggregationFailed, match="out of turn"):
            roster.clients[node].unmask(signed)


def test_public_keys_that_the_server_made_left_out_or_mixed_up_help_it_nothing() -> None:
    nodes, threshold = [1, 2, 3], 2
    keys = {node: Ed25519PrivateKey.generate() for node in nodes}
    identities = {node: key.public_key().public_bytes_raw() for node, key in keys.items()}
    facts = Round(bytes(range(32)), identities, LENGTH, 32, threshold)
    server_made = X25519PrivateKey.generate().public_key().public_bytes_raw()

    def fresh() -> dict[int, ClientRound]:
        return {node: ClientRound(facts, node, key) for node, key in keys.items()}

    clients = fresh()
    ads = {n: c.advertise() for n, c in clients.items()}
    for lie in (
        [ads[1], replace(ads[2], mask_key=server_made), ads[3]],
        [ads[1], replace(ads[2], envelope_key=server_made), ads[3]],
        [ads[1], replace(ads[3], node=2), ads[3]],
        [ads[1], replace(fresh()[2].advertise(), signature=ads[2].signature), ads[3]],
    ):
        copy = ClientRound.load(facts, 1, keys[1], clients[1].dump())
        with pytest.raises(AggregationFailed, match="not signed by it"):
            copy.share(lie)
    # Left out: client 1 is told of 2 alone. Its masks then do not cancel towards 3, and the sum is noise, not a vector.
    shared = {
        1: clients[1].share([ads[1], ads[2]]),
        2: clients[2].share(list(ads.values())),
        3: clients[3].share(list(ads.values())),
    }
    with pytest.raises(AggregationFailed, match="advertised no keys"):
        clients[1].mask(np.zeros(LENGTH, dtype=np.int64), {2: shared[2][1], 3: shared[3][1]})


def test_a_client_that_falls_silent_after_masking_is_left_out_and_its_vector_stays_hidden() -> None:
    roster = Roster([1, 2, 3], threshold=2)
    survivors = roster.server.survivors({n: roster.masked[n] for n in (1, 2)})  # 3's vector came too late
    signed = roster.server.confirmed({n: roster.clients[n].confirm(survivors) for n in (1, 2)})
    answers = [roster.clients[n].unmask(signed) for n in (1, 2)]
    assert roster.server.total(answers).tolist() == [300] * LENGTH
    # The server does hold 3's masked vector and its recovered key, but no share of its seed: the self mask stays on.
    assert all(3 not in answer.seeds for answer in answers)
    forged = [Unmasking(a.node, {**a.seeds, 3: a.mask_keys[3]}, {}) for a in answers]
    late = ServerRound(roster.round)
    late.keys(roster.ads)
    late._sharers = {1, 2, 3}
    late.survivors(roster.masked)
    late._signed = signed
    assert late.total(forged).tolist() != [600] * LENGTH


# ---- a whole party behind a transport


KEYS = {node: Ed25519PrivateKey.generate() for node in (3, 5, 8)}
TASK = FederatedTask(
    Schema(bounds={0: (0, 1), 1: (0, 1)}, classes=[0, 1]), (0, 1),
    {node: key.public_key().public_bytes_raw().hex() for node, key in KEYS.items()},
    threshold=2, rows=5000, recipe="tr_cyc", epsilon=8.0, delta=1e-5, spare_rounds=3,
    options={"n_trees": 2, "max_depth": 2, "batch": 2},
)  # fmt: skip


class Nodes:
    """Three parties in memory; the attacker keeps every state they ever had."""

    def __init__(self, folder: Path | None = None) -> None:
        rng = np.random.default_rng(0)
        self.parties = {n: Party(TASK, rng.uniform(size=(50, 2)), rng.integers(0, 2, 50)) for n in KEYS}
        self.nodes = {
            n: Node(TASK, n, key, lambda n=n: self.parties[n], Once(None if folder is None else folder / str(n)))  # type: ignore[misc]
            for n, key in KEYS.items()
        }
        now = server_step(TASK, [])
        self.common: Payload = {
            "version": VERSION, "task": TASK.to_json(), "session": bytes(range(32)), "length": now.length,
            "asked": now.digest,
        }  # fmt: skip

    def started(self) -> tuple[dict[int, bytes], dict[int, Payload]]:
        """Run two steps; return the states and the requests for masked vectors."""
        ads: dict[str, list[Any]] = {}
        state: dict[int, bytes] = {}
        for n, node in self.nodes.items():
            reply, state[n] = node.handle("advertise", self.common)
            for name, values in reply.items():
                ads.setdefault(name, []).extend(values)
        shared: dict[int, Mapping[str, Any]] = {}
        for n, node in self.nodes.items():
            shared[n], state[n] = node.handle("share", {**self.common, **ads}, state[n])
        inbox = {
            n: {o: shared[o]["data"][shared[o]["nodes"].index(n)] for o in self.nodes if o != n} for n in self.nodes
        }
        asks = {n: {**self.common, "answers": [], **packed_map(inbox[n])} for n in self.nodes}
        return state, asks


@pytest.mark.parametrize("durable", [False, True])
def test_a_replayed_or_rolled_back_round_gets_no_second_vector_under_the_same_masks(
    tmp_path: Path, durable: bool
) -> None:
    attacked = Nodes(tmp_path if durable else None)
    state, asks = attacked.started()
    attacked.nodes[3].handle("mask", asks[3], state[3])  # the reply left; the new state was lost
    charged = len(attacked.parties[3].ledger.journal())
    node = attacked.nodes[3]
    if durable:  # the process died too
        node = Node(TASK, 3, KEYS[3], lambda: attacked.parties[3], Once(tmp_path / "3"))
    with pytest.raises(AggregationFailed, match="mask of this round was answered before"):
        node.handle("mask", asks[3], state[3])
    assert len(attacked.parties[3].ledger.journal()) == charged


@pytest.mark.parametrize("kind", ["confirm", "unmask"])
def test_a_rolled_back_client_neither_signs_nor_opens_a_second_set(kind: str) -> None:
    attacked = Nodes()
    state, asks = attacked.started()
    for n, node in attacked.nodes.items():
        _, state[n] = node.handle("mask", asks[n], state[n])
    before = dict(state)
    signed = {}
    for n, node in attacked.nodes.items():
        reply, state[n] = node.handle("confirm", {**attacked.common, "survivors": [3, 5, 8]}, state[n])
        signed[n] = reply["signature"]
    if kind == "confirm":
        with pytest.raises(AggregationFailed, match="confirm of this round was answered before"):
            attacked.nodes[3].handle("confirm", {**attacked.common, "survivors": [3, 5]}, before[3])
        return
    attacked.nodes[3].handle("unmask", {**attacked.common, **packed_map(signed)}, state[3])
    with pytest.raises(AggregationFailed, match="unmask of this round was answered before"):
        attacked.nodes[3].handle("unmask", {**attacked.common, **packed_map(signed)}, state[3])


def test_a_server_that_asks_other_questions_than_the_answers_lead_to_gets_nothing() -> None:
    attacked = Nodes()
    attacked.common["asked"] = bytes(32)  # from the first message on, so that the keys fit
    state, asks = attacked.started()
    with pytest.raises(AggregationFailed, match="another round than the answers lead to"):
        attacked.nodes[3].handle("mask", asks[3], state[3])
    assert not attacked.parties[3].ledger.journal()


def told(task: FederatedTask, answers: list[Ints], session: bytes = bytes(range(32))) -> Payload:
    """Return the common part of a server's messages in which these were the answers so far."""
    now = server_step(task, answers)
    facts = {"version": VERSION, "task": task.to_json(), "session": session}
    return {**facts, "length": now.length, "asked": now.digest}


def test_parties_that_were_sent_different_answers_cannot_be_summed() -> None:
    """Noise follows the sensitivity, and that follows the answers: others could be made to add too little of it."""
    task = replace(TASK, options={"n_trees": 4, "max_depth": 2, "batch": 2})
    first = server_step(task, [])
    small = [np.zeros(q.value.size, dtype=np.int64) for q in first.queries]
    large = [np.full(q.value.size, 2**30, dtype=np.int64) for q in first.queries]
    sizes = [server_step(task, answers).queries[0].grid.sensitivity for answers in (small, large)]
    assert sizes[1] > 1.02 * sizes[0]
    rows = Party(task, np.full((5, 2), 0.5), np.zeros(5, dtype=int))
    nodes = {n: Node(task, n, key, lambda: rows) for n, key in KEYS.items()}
    ads: dict[str, list[Any]] = {}
    states = {}
    common = {3: told(task, large), 5: told(task, small), 8: told(task, small)}
    for n, node in nodes.items():
        reply, states[n] = node.handle("advertise", common[n])
        for name, values in reply.items():
            ads.setdefault(name, []).extend(values)
    for n, node in nodes.items():
        with pytest.raises(AggregationFailed, match="not signed by it for this round"):
            node.handle("share", {**common[n], **ads}, states[n])


@pytest.mark.parametrize("kind", ["confirm", "unmask"])
def test_the_state_of_one_round_does_not_serve_another(kind: str) -> None:
    """Steps are taken once in a session: a server that names another session with an old state gets nothing."""
    attacked = Nodes()
    state, asks = attacked.started()
    _, state[3] = attacked.nodes[3].handle("mask", asks[3], state[3])
    other = {**attacked.common, "session": bytes(32), "survivors": [3, 5], "nodes": [], "data": []}
    with pytest.raises(AggregationFailed, match="go on with another round"):
        attacked.nodes[3].handle(kind, other, state[3])


def test_a_server_that_starts_rounds_for_ever_is_refused_when_the_plan_is_spent() -> None:
    """Each attempt costs a party what it planned for one; beyond its plan it sends nothing, and says why."""
    attacked = Nodes()
    rounds = 0
    while True:
        attacked.common["session"] = rounds.to_bytes(32, "big")
        state, asks = attacked.started()
        try:
            attacked.nodes[3].handle("mask", asks[3], state[3])
        except LedgerwoodError as error:
            refused = str(error)
            break
        rounds += 1
    assert rounds == 1 + TASK.spare_rounds
    assert refused == "all 8 runs of 'leaf' are used; nothing was released"
    ledger = attacked.parties[3].ledger
    assert ledger.spent().epsilon <= TASK.epsilon and ledger.spent().fraction == pytest.approx(1.0, abs=1e-6)


LOW_ORDER = bytes(32)
"""A public key that gives everyone the same secret."""


def test_a_party_with_useless_keys_or_missing_envelopes_counts_as_silent() -> None:
    keys = {node: Ed25519PrivateKey.generate() for node in (1, 2, 3, 4)}
    identities = {node: key.public_key().public_bytes_raw() for node, key in keys.items()}
    facts = Round(bytes(32), identities, LENGTH, 32, 3)
    clients = {node: ClientRound(facts, node, key) for node, key in keys.items()}
    ads = [client.advertise() for client in clients.values()]
    bad = replace(ads[3], mask_key=LOW_ORDER)
    bad = replace(bad, signature=keys[4].sign(bad.signed(facts.digest)))
    copy = ClientRound.load(facts, 1, keys[1], clients[1].dump())
    with pytest.raises(AggregationFailed, match="keys of node 4"):
        copy.share([*ads[:3], bad])
    server = ServerRound(facts)
    assert [ad.node for ad in server.keys([*ads[:3], bad])] == [1, 2, 3]

    everyone = ServerRound(facts)
    ads = everyone.keys(ads)
    shared = {n: client.share(ads) for n, client in clients.items()}
    del shared[4][1]
    envelopes = everyone.envelopes(shared)
    assert sorted(envelopes) == [1, 2, 3] and all(4 not in inbox for inbox in envelopes.values())
    masked = {n: clients[n].mask(np.full(LENGTH, n, dtype=np.int64), envelopes[n]) for n in envelopes}
    survivors = everyone.survivors({**masked, 4: masked[1]})
    signed = everyone.confirmed({n: clients[n].confirm(survivors) for n in survivors})
    assert everyone.total([clients[n].unmask(signed) for n in signed]).tolist() == [6] * LENGTH
