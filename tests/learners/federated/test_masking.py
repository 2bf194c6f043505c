"""Secure aggregation alone, without a transport: exact sums, dropouts, forgeries, and masks that resist a search."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from dataclasses import replace

import numpy as np
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from ledgerwood.errors import AggregationFailed, ParameterError
from ledgerwood.learners.federated import masking
from ledgerwood.learners.federated.protocol import Round, Unmasking
from ledgerwood.learners.federated.secure_aggregation import ClientRound, ServerRound

Ints = NDArray[np.int64]


class Party:
    """A roster of clients and a server, driven step by step with chosen dropouts."""

    def __init__(
        self, nodes: Iterable[int], *, length: int, bits: int = 32, threshold: int, colluding: int = 0
    ) -> None:
        self.keys = {node: Ed25519PrivateKey.generate() for node in nodes}
        identities = {node: key.public_key().public_bytes_raw() for node, key in self.keys.items()}
        self.round = Round(bytes(range(32)), identities, length, bits, threshold, colluding)
        self.clients = {node: ClientRound(self.round, node, key) for node, key in self.keys.items()}
        self.server = ServerRound(self.round)

    def run(self, values: dict[int, Ints], silent: dict[int, int] | None = None) -> Ints:
        """``silent[node]`` is the step (1 to 5) from which a node says nothing any more."""
        silent = silent or {}

        def speaks(node: int, step: int) -> bool:
            return silent.get(node, 6) > step

        ads = self.server.keys([c.advertise() for n, c in self.clients.items() if speaks(n, 1)])
        shared = {n: self.clients[n].share(ads) for n in [ad.node for ad in ads] if speaks(n, 2)}
        envelopes = self.server.envelopes(shared)
        masked = {n: self.clients[n].mask(values[n], envelopes[n]) for n in envelopes if speaks(n, 3)}
        survivors = self.server.survivors(masked)
        signed = self.server.confirmed({n: self.clients[n].confirm(survivors) for n in survivors if speaks(n, 4)})
        return self.server.total([self.clients[n].unmask(signed) for n in signed if speaks(n, 5)])


def vectors(nodes: Iterable[int], length: int, seed: int = 0) -> dict[int, Ints]:
    rng = np.random.default_rng(seed)
    return {node: rng.integers(-1000, 1000, length) for node in nodes}


@given(
    st.sets(st.integers(0, 2**63 - 1), min_size=2, max_size=5),
    st.sampled_from([32, 40]),
    st.data(),
)
@settings(max_examples=25, deadline=None)
def test_the_sum_is_that_of_the_survivors_whoever_falls_silent_when(
    nodes: set[int], bits: int, data: st.DataObject
) -> None:
    threshold = data.draw(st.integers(len(nodes) // 2 + 1, len(nodes)).filter(lambda t: t >= 2))
    silent = data.draw(st.dictionaries(st.sampled_from(sorted(nodes)), st.integers(1, 5)))
    party, values = Party(nodes, length=7, bits=bits, threshold=threshold), vectors(nodes, 7)
    summed = [n for n in nodes if silent.get(n, 6) > 3]
    answering = [n for n in nodes if n not in silent]
    if len(answering) < threshold:
        with pytest.raises(AggregationFailed, match="needed; no sum was opened"):
            party.run(values, silent)
    else:
        assert party.run(values, silent).tolist() == sum(values[n] for n in summed).tolist()


@pytest.mark.parametrize("bits", [32, 40])
def test_sums_wrap_at_the_modulus_and_are_centred(bits: int) -> None:
    party = Party([1, 2], length=2, bits=bits, threshold=2)
    top = 2 ** (bits - 1) - 1
    total = party.run({1: np.array([top, -top]), 2: np.array([1, -1])})
    assert total.tolist() == [-(top + 1), -(top + 1)]


def test_what_crosses_the_wire_is_four_or_five_bytes_an_entry() -> None:
    for bits, size in ((32, 4), (40, 5)):
        assert len(masking.packed(np.arange(100, dtype=np.uint64), bits)) == 100 * size


def test_one_masked_vector_looks_uniform() -> None:
    party, n = Party([1, 2, 3], length=40_000, threshold=2), 40_000
    ads = party.server.keys([c.advertise() for c in party.clients.values()])
    envelopes = party.server.envelopes({i: c.share(ads) for i, c in party.clients.items()})
    words = masking.unpacked(party.clients[1].mask(np.zeros(n, dtype=np.int64), envelopes[1]), n, 32)
    ones = sum(int(w).bit_count() for w in words)
    assert abs(ones - 16 * n) < 6 * np.sqrt(8 * n)  # a false alarm has probability 2e-9
    assert len(np.unique(words)) > n - 10


# ---- forgeries and lies


def started(threshold: int = 2) -> tuple[Party, list[dict[int, bytes]], list[int]]:
    party = Party([1, 2, 3], length=3, threshold=threshold)
    ads = party.server.keys([c.advertise() for c in party.clients.values()])
    shared = {n: c.share(ads) for n, c in party.clients.items()}
    envelopes = party.server.envelopes(shared)
    return party, [envelopes[n] for n in (1, 2, 3)], [1, 2, 3]


def test_keys_that_their_node_did_not_sign_are_refused() -> None:
    party = Party([1, 2, 3], length=3, threshold=2)
    ads = [c.advertise() for c in party.clients.values()]
    other = X25519PrivateKey.generate().public_key().public_bytes_raw()
    forged = [replace(ads[0], mask_key=other), *ads[1:]]
    with pytest.raises(AggregationFailed, match="not signed"):
        party.clients[2].share(forged)


def test_an_advertisement_of_another_round_is_refused() -> None:
    party = Party([1, 2, 3], length=3, threshold=2)
    ads = [c.advertise() for c in party.clients.values()]
    later = replace(party.round, session=bytes(32))
    client = ClientRound(later, 2, party.keys[2])
    client.advertise()
    with pytest.raises(AggregationFailed, match="not signed"):
        client.share(ads)


def test_a_node_outside_the_roster_or_twice_is_refused() -> None:
    party = Party([1, 2, 3], length=3, threshold=2)
    ads = [c.advertise() for c in party.clients.values()]
    with pytest.raises(AggregationFailed, match="twice"):
        party.clients[1].share([*ads, ads[0]])
    with pytest.raises(AggregationFailed, match="roster"):
        party.clients[2].share([*ads, replace(ads[0], node=9)])


def test_a_changed_envelope_is_refused() -> None:
    party, envelopes, _ = started()
    broken = {n: data[:-1] + bytes([data[-1] ^ 1]) for n, data in envelopes[0].items()}
    with pytest.raises(AggregationFailed, match="not authentic"):
        party.clients[1].mask(np.zeros(3, dtype=np.int64), broken)


@pytest.mark.parametrize("survivors", [[1], [2, 3], [1, 2, 9]])
def test_a_client_opens_only_enough_survivors_that_it_knows_and_belongs_to(survivors: list[int]) -> None:
    party, envelopes, _ = started()
    party.clients[1].mask(np.zeros(3, dtype=np.int64), envelopes[0])
    with pytest.raises(AggregationFailed, match="nothing was sent"):
        party.clients[1].confirm(survivors)


def test_a_client_answers_once() -> None:
    party, envelopes, nodes = started()
    for i, client in party.clients.items():
        client.mask(np.zeros(3, dtype=np.int64), envelopes[i - 1])
    signed = {n: party.clients[n].confirm(nodes) for n in nodes}
    with pytest.raises(AggregationFailed, match="out of turn"):
        party.clients[2].confirm([1, 2])
    party.clients[1].unmask(signed)
    with pytest.raises(AggregationFailed, match="out of turn"):
        party.clients[1].unmask(signed)


@given(st.integers(2, 7), st.integers(0, 3), st.data())
@settings(max_examples=60, deadline=None)
def test_no_split_of_the_answers_opens_both_secrets_of_a_client(n: int, colluding: int, data: st.DataObject) -> None:
    """The server asks some honest clients for seeds and others for mask keys; colluders give it everything."""
    if colluding >= n - 1 or (n + colluding) // 2 + 1 > n:
        return
    threshold = data.draw(st.integers(max(2, (n + colluding) // 2 + 1), n))
    Party(range(n), length=1, threshold=threshold, colluding=colluding)
    honest = n - colluding
    for asked_for_seeds in range(honest + 1):
        both = (asked_for_seeds + colluding >= threshold) and (honest - asked_for_seeds + colluding >= threshold)
        assert not both


@pytest.mark.parametrize(("n", "threshold", "colluding"), [(4, 2, 0), (3, 2, 1), (3, 4, 0), (2, 1, 0)])
def test_a_threshold_that_protects_nobody_is_refused(n: int, threshold: int, colluding: int) -> None:
    with pytest.raises(ParameterError, match="threshold must"):
        Party(range(n), length=1, threshold=threshold, colluding=colluding)


def test_answers_that_open_nothing_are_noticed() -> None:
    party, envelopes, nodes = started()
    masked = {n: party.clients[n].mask(np.zeros(3, dtype=np.int64), envelopes[i]) for i, n in enumerate(nodes)}
    survivors = party.server.survivors({n: masked[n] for n in (1, 2)})  # node 3 fell silent
    signed = party.server.confirmed({n: party.clients[n].confirm(survivors) for n in (1, 2)})
    answers = [party.clients[n].unmask(signed) for n in (1, 2)]
    wrong = [Unmasking(a.node, a.seeds, {3: a.seeds[1]}) for a in answers]
    with pytest.raises(AggregationFailed, match=r"recovered key|do not open"):
        party.server.total(wrong)


def test_wrong_vectors_and_steps_out_of_turn_are_refused() -> None:
    party, envelopes, _ = started()
    with pytest.raises(AggregationFailed, match="out of turn"):
        party.clients[2].confirm([1, 2, 3])
    with pytest.raises(AggregationFailed, match="shape or type"):
        party.clients[1].mask(np.zeros(4, dtype=np.int64), envelopes[0])
    with pytest.raises(AggregationFailed, match="only 0 nodes sent their vectors"):
        party.server.survivors({1: b"short", 2: b"", 3: bytes(13)})


# ---- Shamir


@given(st.binary(min_size=32, max_size=32), st.integers(1, 6), st.data())
@settings(max_examples=30, deadline=None)
def test_any_threshold_shares_recover_the_secret(secret: bytes, threshold: int, data: st.DataObject) -> None:
    parties = data.draw(st.integers(threshold, 7))
    shares = masking.split(secret, parties=parties, threshold=threshold)
    for chosen in itertools.islice(itertools.combinations(range(parties), threshold), 10):
        assert masking.recover({i: shares[i] for i in chosen}, threshold=threshold) == secret
    if threshold > 1:
        with pytest.raises(ParameterError):
            masking.recover({0: shares[0]}, threshold=threshold)


def test_fewer_shares_than_the_threshold_fit_every_secret() -> None:
    """One share of a threshold of two: for each other secret there is exactly one line through both points."""
    share = int.from_bytes(masking.split(bytes(32), parties=3, threshold=2)[0], "big")
    for secret in (0, 1, 2**255):
        slope = (share - secret) % masking.PRIME
        assert (secret + slope) % masking.PRIME == share
