"""Two and three parties over real sockets with mutual TLS: what they agree on, and what they refuse."""

from __future__ import annotations

import contextlib
import json
import shutil
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from pyarrow import flight
from scipy.stats import chisquare
from vertical_parties import (
    DIGEST,
    DOMAIN,
    IDS,
    KEY,
    LABELS,
    ROWS,
    TABLE,
    TOKEN,
    B,
    CountingProxy,
    client,
    learner,
    party,
    serving,
    transformer,
)
from vertical_ports import free_port

from ledgerwood.accounting import Ledger
from ledgerwood.errors import (
    BudgetExceeded,
    LedgerwoodError,
    ParameterError,
    PartyRefused,
    PartyUnreachable,
    ProtocolError,
    ReleaseRefused,
)
from ledgerwood.learners.vertical import (
    Authority,
    FeatureClient,
    FeatureParty,
    FeatureServer,
    OrderPreservingTransformer,
    VerticalModel,
    feature_party,
    id_digest,
    messages,
    train_vertical,
)
from ledgerwood.learners.vertical.messages import LARGEST_REQUEST, Request, pack_splits, to_json
from ledgerwood.learners.vertical.training import training_table


def columns_of(own: FeatureParty) -> Any:
    return np.column_stack([np.array(t)[c] for t, c in zip(own.stored.values, own.stored.mapped(), strict=True)])


# ---- together


def test_party_a_alone_predicts_what_all_predict_together(tmp_path: Path) -> None:
    own = pd.DataFrame({"score": np.random.default_rng(1).normal(size=ROWS)})
    with (
        serving(tmp_path / "b", names=["age"], name="bank") as (bank, first),
        serving(tmp_path / "c", names=["colour", "hours"], name="shop") as (shop, second),
    ):
        clients = [client(first, tmp_path / "a/0"), client(second, tmp_path / "a/1")]
        model = train_vertical(learner(), LABELS, clients, tmp_path / "a", X=own)
        released = {"bank": columns_of(bank), "shop": columns_of(shop)}
        received = [each.columns() for each in clients]
    # both servers are gone
    joint = model.learner.predict(training_table(received, own))
    assert np.array_equal(model.predict_released(own, released), joint)
    raw = {"bank": TABLE[["age"]], "shop": TABLE[["hours", "colour"]]}
    assert (model.predict(own, raw) == LABELS).mean() > 0.75
    assert model.predict_proba(own, raw).shape == (ROWS, 2)
    again = VerticalModel.load(tmp_path / "a/model.pkl")
    assert np.array_equal(again.predict_released(own, released), joint)
    assert "bank" not in str(model.parties[1].transformer.privacy_statement())
    with pytest.raises(ParameterError, match="each party"):
        model.predict(own, {"bank": TABLE[["age"]]})
    finished = train_vertical(learner(), LABELS, clients, tmp_path / "a", X=own)  # the model is there: nobody is asked
    assert np.array_equal(finished.predict_released(own, released), joint)


@pytest.mark.parametrize("split", [[["age", "hours"]], [["age"], ["hours"]]])
def test_the_number_of_parties_does_not_change_the_distribution(tmp_path: Path, split: list[list[str]]) -> None:
    constant = pd.DataFrame({"age": np.full(ROWS, 34.0), "hours": np.full(ROWS, 20.0)})
    outputs = {}
    for number, names in enumerate(split):
        own = FeatureParty(
            "b", transformer(names, epsilon=0.7, levels=5), lambda names=names: (constant[names], IDS),
            tmp_path / f"{number}", key=KEY,
        )  # fmt: skip
        with own, FeatureServer(own, "grpc+tls://localhost:0", B, TOKEN) as server:
            received = client(f"grpc+tls://localhost:{server.port}", tmp_path / f"a{number}").columns()
            for i, name in enumerate(names):
                values = np.array(own.stored.values[i])[received.mapped()[i]]
                outputs[name] = np.searchsorted(own.transformer.release_.columns[i].values, values)
            server.shutdown()
    made = transformer(["age", "hours"], epsilon=0.7, levels=5)
    distribution = [column.mechanism.probabilities(column.encode([x]) + 1)[0]
           for column, x in zip(made.release_.columns, (34.0, 20.0), strict=True)]  # fmt: skip
    counts = np.bincount(outputs["age"] * 5 + outputs["hours"], minlength=25)
    assert (
        chisquare(counts, ROWS * np.outer(*distribution).ravel()).pvalue > 1e-8
    )  # true randomness: fails once in 1e8 runs


def test_the_release_is_charged_once_and_survives_restarts(tmp_path: Path) -> None:
    seen = []
    for number in range(3):
        with serving(tmp_path / "b") as (own, location):
            received = client(location, tmp_path / f"a{number}").columns()
            seen.append(b"".join(column.tobytes() for column in received.mapped()))
            assert own.ledger.spent().epsilon == pytest.approx(own.transformer.release_.cost.epsilon(0.0))
            assert [entry.kind for entry in own.ledger.journal()] == ["release", "release"]  # the charge, the note
    assert len(set(seen)) == 1
    assert json.loads((tmp_path / "b/statement.json").read_text())["charged"] == 1


def test_the_table_is_not_read_before_a_partner_fits_nor_after_the_release(tmp_path: Path) -> None:
    reads = []

    def table() -> Any:
        reads.append(1)
        return TABLE, IDS

    for _ in range(2):
        own = FeatureParty("b", transformer(list(DOMAIN)), table, tmp_path / "b", key=KEY)
        with own:
            if not reads:
                with pytest.raises(ProtocolError):
                    own.offer(ROWS - 1, DIGEST)
                assert own.ledger.spent().epsilon == 0
                reads.clear()
            own.offer(ROWS, DIGEST)
    assert len(reads) == 1


# ---- a second release is refused


def test_other_parameters_are_refused_on_the_same_folder(tmp_path: Path) -> None:
    with party(tmp_path / "b", budget=100.0) as own:
        own.offer(ROWS, DIGEST)
    changed = party(tmp_path / "b", budget=100.0, epsilon=1.0)
    with changed as own, pytest.raises(ReleaseRefused, match="other parameters"):
        own.offer(ROWS, DIGEST)
    with pytest.raises(ParameterError, match="opening record"):
        party(tmp_path / "b", epsilon=1.0)
    with party(tmp_path / "c", budget=0.5) as own, pytest.raises(BudgetExceeded):
        own.offer(ROWS, DIGEST)


def test_a_release_that_is_gone_or_changed_is_not_drawn_again(tmp_path: Path) -> None:
    with party(tmp_path / "b") as own:
        own.offer(ROWS, DIGEST)
    columns = tmp_path / "b/release/columns.bin"
    kept = columns.read_bytes()
    columns.write_bytes(bytes([kept[0] ^ 1]) + kept[1:])
    with party(tmp_path / "b") as own, pytest.raises(ReleaseRefused, match="not the ones released"):
        own.offer(ROWS, DIGEST)
    shutil.rmtree(tmp_path / "b/release")
    with party(tmp_path / "b") as own, pytest.raises(ReleaseRefused, match="second release"):
        own.offer(ROWS, DIGEST)


def test_a_charge_without_a_release_is_used_and_not_paid_again(tmp_path: Path) -> None:
    with party(tmp_path / "b") as own:
        own.ledger.release(_Dead(own.transformer.release_.cost), None, label=own.label)  # then the process died
    with party(tmp_path / "b") as own:
        own.offer(ROWS, DIGEST)
        assert own.ledger.spent().epsilon == pytest.approx(own.transformer.release_.cost.epsilon(0.0))


class _Dead:
    def __init__(self, cost: Any) -> None:
        self.cost = cost

    def release(self, value: Any, rng: Any = None) -> None:
        """What was drawn is lost."""


def test_a_seeded_party_and_a_second_process_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ParameterError, match="not private"):
        party(tmp_path / "b", random_state=1)
    with party(tmp_path / "b"), pytest.raises(ParameterError, match="no other process"):
        party(tmp_path / "b")


# ---- hostile clients: refused with a clear error, and the server keeps serving


@pytest.mark.parametrize(
    ("wrong", "error", "message"),
    [
        ({"token": b"x" * 16}, PartyRefused, "not sealed with this party's token"),
        ({"identity": Authority("other").issue("a")}, PartyUnreachable, "certificates"),
        ({"rows": ROWS - 1}, PartyRefused, "another number of rows"),
        ({"ids": id_digest(reversed(IDS), KEY)}, PartyRefused, "in another order"),
        ({"ids": id_digest(IDS, b"o" * 16)}, PartyRefused, "under another key"),
    ],
)
def test_a_partner_that_does_not_fit_is_refused(tmp_path: Path, wrong: Any, error: Any, message: str) -> None:
    with serving(tmp_path / "b") as (own, location):
        with pytest.raises(error, match=message):
            client(location, tmp_path / "x", **wrong).columns()
        assert own.ledger.spent().epsilon == 0  # and nothing was spent on it
        assert client(location, tmp_path / "a").columns().rows == ROWS


def test_a_client_without_a_certificate_is_refused(tmp_path: Path) -> None:
    with serving(tmp_path / "b") as (_, location):
        bare = flight.connect(location, tls_root_certs=B.authority)
        with pytest.raises(flight.FlightUnavailableError):
            list(bare.do_action(flight.Action("open", b"")))
        bare.close()
        assert client(location, tmp_path / "a").columns().rows == ROWS


def test_a_server_of_another_authority_is_not_trusted(tmp_path: Path) -> None:
    impostor = Authority("other").issue("b", ["localhost"])
    with party(tmp_path / "b") as own, FeatureServer(own, "grpc+tls://localhost:0", impostor, TOKEN) as server:
        with pytest.raises(PartyUnreachable):
            client(f"grpc+tls://localhost:{server.port}", tmp_path / "a").columns()
        server.shutdown()


def request(kind: str, asker: FeatureClient, body: bytes, number: int | None = None) -> bytes:
    asker._number += 1
    return Request(kind, asker._session, asker._number if number is None else number, body).seal(TOKEN)


@contextlib.contextmanager
def greeted(tmp_path: Path) -> Iterator[FeatureClient]:
    with serving(tmp_path / "b") as (_, location), client(location, tmp_path / "a") as asker:
        asker._hello()
        yield asker
        assert len(asker.values([(0, 1)])) == 1  # it still serves


def test_a_replayed_request_is_refused(tmp_path: Path) -> None:
    with greeted(tmp_path) as asker:
        sealed = request("splits", asker, pack_splits([(0, 1)]))
        assert len(asker._one_result("splits", sealed)) == 8
        with pytest.raises(flight.FlightUnauthenticatedError, match="used before"):
            asker._one_result("splits", sealed)
        with pytest.raises(flight.FlightUnauthenticatedError, match="used before"):
            asker._one_result("splits", request("splits", asker, pack_splits([(0, 1)]), number=1))
        other = Request("splits", b"s" * 16, 99, b"").seal(TOKEN)
        with pytest.raises(flight.FlightUnauthenticatedError, match="not open here"):
            asker._one_result("splits", other)


def test_messages_that_break_the_rules_are_refused(tmp_path: Path) -> None:
    def tampered(data: bytes, place: int) -> bytes:
        return data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :]

    with greeted(tmp_path) as asker:
        good = request("splits", asker, pack_splits([(0, 1)]))
        new_version = good[:4] + (2).to_bytes(2, "little") + good[6:]
        for kind, body, message in [
            ("splits", b"", "at least"),
            ("splits", bytes(LARGEST_REQUEST + 1), "at most"),
            ("splits", bytes(5 * LARGEST_REQUEST), "at most"),
            ("splits", b"HTTP" + good[4:], "not a request"),
            ("splits", new_version, "version 1 of the protocol, the request is of 2"),
            ("splits", tampered(good, 40), "not sealed"),
            ("splits", tampered(good, len(good) - 1), "not sealed"),
            ("splits", good[:-40], "at least"),
            ("splits", good[:-1], "not sealed"),
            ("splits", request("splits", asker, b"123"), "4 bytes for each"),
            ("splits", request("splits", asker, pack_splits([(0, 1), (0, 10)])), "no ordinal 10 in column 0"),
            ("splits", request("splits", asker, pack_splits([(99, 0)])), "no ordinal 0 in column 99"),
            ("splits", request("hello", asker, b""), "came as"),
            ("hello", request("hello", asker, b"[]"), "version"),
            ("hello", request("hello", asker, b"\xff"), "not JSON"),
            ("hello", request("hello", asker, to_json({"rows": "many", "ids": DIGEST})), "how many rows"),
            ("drop", good, "came as"),
        ]:
            with pytest.raises((flight.FlightError, pa.ArrowException), match=message):
                asker._one_result(kind, body)
        for body, message in [
            (to_json({"start": ROWS + 1}), "starts at a row"),
            (to_json({"start": -1}), "starts at a row"),
            (to_json({"start": 1.5}), "starts at a row"),
        ]:
            with pytest.raises((flight.FlightError, pa.ArrowException), match=message):
                asker._client.do_get(flight.Ticket(request("columns", asker, body))).read_all()


def test_nothing_is_answered_before_hello(tmp_path: Path) -> None:
    with serving(tmp_path / "b") as (_, location), client(location, tmp_path / "a") as asker:
        asker._hello()
        asker._session = asker._one_result("open", b"")[2:]
        with pytest.raises(flight.FlightServerError, match="hello first"):
            asker._one_result("splits", request("splits", asker, pack_splits([(0, 1)])))


def test_an_error_of_the_server_quotes_nothing(tmp_path: Path) -> None:
    def table() -> Any:
        raise RuntimeError("secret 42")

    own = FeatureParty("b", transformer(list(DOMAIN)), table, tmp_path / "b", key=KEY)
    with own, FeatureServer(own, "grpc+tls://localhost:0", B, TOKEN) as server:
        with pytest.raises(PartyRefused, match="an error of its own") as caught:
            client(f"grpc+tls://localhost:{server.port}", tmp_path / "a").columns()
        assert "secret" not in str(caught.value) + str(caught.value.__cause__)
        server.shutdown()


# ---- hostile or failing servers: refused on party A's side, or resumed


class Truncating(FeatureServer):
    """Ends a stream early, as often as told."""

    times = 2

    def _columns(self, ticket: bytes) -> Any:
        stream = super()._columns(ticket)
        if self.times == 0:
            return stream
        self.times -= 1
        stored = self._party.stored
        start = messages.from_json(Request.open(ticket, TOKEN).body)["start"]
        fields = [pa.field(c.name, pa.from_numpy_dtype(c.dtype), nullable=False) for c in stored.columns]
        first = next(feature_party._batches(stored, pa.schema(fields), start))
        return flight.GeneratorStream(pa.schema(fields), iter([first.slice(0, 700)]))


def test_a_truncated_stream_is_resumed_with_the_same_bytes(tmp_path: Path) -> None:
    with serving(tmp_path / "b", Truncating) as (own, location):
        received = client(location, tmp_path / "a", attempts=3).columns()
        sent = own.stored.mapped()
        assert all(np.array_equal(x, y) for x, y in zip(received.mapped(), sent, strict=True))


def test_a_stream_that_is_always_truncated_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Truncating, "times", 100)
    away = pytest.raises(PartyUnreachable, match="ended after 1400 of 3000 rows")
    with serving(tmp_path / "b", Truncating) as (_, location), away:
        client(location, tmp_path / "a", attempts=1).columns()


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda batch: pa.concat_batches([batch, batch]), "columns or the rows announced"),
        (lambda batch: batch.select([0]), "columns or the rows announced"),
        (lambda batch: pa.record_batch([c.cast(pa.uint16()) for c in batch.columns], batch.schema.names), "announced"),
        (lambda batch: pa.record_batch([pa.array([200] * batch.num_rows, pa.uint8())] * 5, batch.schema.names),
         "not announced"),
        (lambda batch: pa.record_batch([pa.array([0] * batch.num_rows, pa.uint8())] * 5, batch.schema.names), "digest"),
    ],
)  # fmt: skip
def test_columns_that_are_not_as_announced_are_refused(tmp_path: Path, spoil: Any, message: str) -> None:
    class Spoiling(FeatureServer):
        def _columns(self, ticket: bytes) -> Any:
            stored = self._party.stored
            fields = [pa.field(c.name, pa.from_numpy_dtype(c.dtype), nullable=False) for c in stored.columns]
            batch = spoil(next(feature_party._batches(stored, pa.schema(fields), 0)))
            return flight.GeneratorStream(batch.schema, iter([batch]))

    with serving(tmp_path / "b", Spoiling) as (_, location), pytest.raises(ProtocolError, match=message):
        client(location, tmp_path / "a").columns()


def test_a_message_larger_than_the_limit_is_refused(tmp_path: Path) -> None:
    with serving(tmp_path / "b") as (_, location), pytest.raises(LedgerwoodError, match="more than 4096 bytes"):
        client(location, tmp_path / "a", largest_answer=4096).columns()
    with serving(tmp_path / "b") as (_, location):
        assert client(location, tmp_path / "a").columns().rows == ROWS


def test_a_second_set_of_columns_is_not_accepted(tmp_path: Path) -> None:
    with serving(tmp_path / "b") as (_, location):
        client(location, tmp_path / "a").columns()
    with serving(tmp_path / "other") as (_, location), pytest.raises(ProtocolError, match="other columns than before"):
        client(location, tmp_path / "a").values([(0, 1)])
    (tmp_path / "a/columns.bin").unlink()
    with serving(tmp_path / "other") as (_, location), pytest.raises(ProtocolError, match="other columns than before"):
        client(location, tmp_path / "a").columns()


def test_a_party_that_is_away_is_waited_for(tmp_path: Path) -> None:
    port = free_port()
    with pytest.raises(PartyUnreachable, match="gave up after 2 attempts"):
        client(f"grpc+tls://localhost:{port}", tmp_path / "a", attempts=1).columns()
    with party(tmp_path / "b") as own:
        box: list[Any] = []
        late = threading.Timer(0.3, lambda: box.append(FeatureServer(own, f"grpc+tls://localhost:{port}", B, TOKEN)))
        late.start()
        received = client(f"grpc+tls://localhost:{port}", tmp_path / "a", attempts=200).columns()
        late.join()
        assert received.rows == ROWS
        box[0].shutdown()


# ---- bytes


def test_the_bytes_on_the_wire_stay_within_the_bound(tmp_path: Path) -> None:
    rows = 200_000
    table = pd.DataFrame({"age": np.linspace(0, 100, rows), "hours": np.linspace(0, 40, rows)})
    ids = range(rows)
    made = OrderPreservingTransformer(domain={"age": (0, 100), "hours": (0, 40)}, levels=200, epsilon=0.01).fit(table)
    own = FeatureParty("b", made, lambda: (table, ids), tmp_path / "b", key=KEY)
    with own, FeatureServer(own, "grpc+tls://localhost:0", B, TOKEN) as server:
        proxy = CountingProxy(server.port)
        asker = client(f"grpc+tls://localhost:{proxy.port}", tmp_path / "a", rows=rows, ids=id_digest(ids, KEY))
        received = asker.columns()
        assert received.columns[0].type == "uint8"
        before = proxy.bytes
        assert before <= 1.1 * rows * 2
        asker.values([(i, j) for i in range(2) for j in range(1, 200)])
        asker.close()
        assert proxy.bytes - before <= 16 * 398 + 1000  # the same connection: no new handshake
        server.shutdown()
        proxy.close()
    assert len(Request("splits", bytes(16), 1, pack_splits([(0, 1)] * 398)).seal(TOKEN)) + 8 * 398 <= 16 * 398


def test_a_connection_that_died_meanwhile_is_made_anew(tmp_path: Path) -> None:
    with serving(tmp_path / "b") as (own, location):
        asker = client(location, tmp_path / "a", attempts=1)
        asker.columns()
        asker._session = b"s" * 16  # as if the server had been restarted
        assert asker.values([(0, 1)]) == [own.stored.values[0][1]]
        asker.close()


def test_wide_columns_take_two_bytes(tmp_path: Path) -> None:
    with serving(tmp_path / "b", names=["age"], levels=1000, sampler="bounded_discrete_laplace") as (_, location):
        received = client(location, tmp_path / "a").columns()
    assert received.columns[0].type == "uint16" and received.mapped()[0].dtype == np.uint16


def test_withheld_cells_cross_the_wire_as_missing(tmp_path: Path) -> None:
    with serving(tmp_path / "b", split="sample", columns_per_record=1) as (own, location):
        received = client(location, tmp_path / "a").columns()
        table = training_table([received])
    assert table.shape == (ROWS, 5)  # age, three bits of the colour, hours
    shown = ~np.isnan(table)
    assert (shown[:, 0].astype(int) + shown[:, 1] + shown[:, 4] == 1).all()
    assert (shown[:, 1] == shown[:, 3]).all() and own.stored.rows == ROWS


def test_the_ledger_of_a_party_can_be_read_by_anybody(tmp_path: Path) -> None:
    with party(tmp_path / "b") as own:
        own.offer(ROWS, DIGEST)
        label = own.label
    with Ledger.open(tmp_path / "b/ledger.jsonl") as ledger:
        assert [entry.label.startswith(label) for entry in ledger.journal()] == [True, True]
        assert "replace" in ledger.statement()
