"""What a fresh attacker tried on the parties: files moved, ledgers lost, manifests forged, values read from errors."""

from __future__ import annotations

import json
import logging
import math
import shutil
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from pyarrow import flight
from vertical_parties import (
    AUTHORITY,
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
)
from vertical_parties import transformer as declared

from ledgerwood.errors import ParameterError, PartyRefused, ProtocolError, ReleaseRefused
from ledgerwood.learners.vertical import (
    FeatureParty,
    FeatureServer,
    Identity,
    OrderPreservingTransformer,
    VerticalModel,
    feature_party,
    id_digest,
    train_vertical,
)
from ledgerwood.learners.vertical.messages import from_json, to_json

# ---- one release, whatever happens to the files


def test_a_release_without_its_ledger_is_not_sent(tmp_path: Path) -> None:
    with party(tmp_path / "b") as own:
        own.offer(ROWS, DIGEST)
    for path in tmp_path.glob("b/ledger*"):
        path.unlink()
    with party(tmp_path / "b") as own:
        for _ in range(2):
            with pytest.raises(ReleaseRefused, match="has not been charged"):
                own.offer(ROWS, DIGEST)
        assert own.ledger.spent().epsilon == 0


@pytest.mark.parametrize("other", [{"name": "renamed"}, {"epsilon": 1.0}, {"levels": 9}, {"theta": 3}])
def test_a_second_release_is_refused_even_when_the_budget_would_do(tmp_path: Path, other: dict[str, Any]) -> None:
    with party(tmp_path / "b", budget=1000.0) as own:
        own.offer(ROWS, DIGEST)
        spent = own.ledger.spent().epsilon
    shutil.rmtree(tmp_path / "b/release")  # and the party or its parameters get another name
    with party(tmp_path / "b", budget=1000.0, **other) as own:
        with pytest.raises(ReleaseRefused, match="another name or with other parameters"):
            own.offer(ROWS, DIGEST)
        assert own.ledger.spent().epsilon == spent
    assert not (tmp_path / "b/release/columns.bin").exists()


@pytest.mark.parametrize("entry", ["values", "rows", "ids", "columns", "digest"])
def test_a_changed_manifest_is_refused(tmp_path: Path, entry: str) -> None:
    with party(tmp_path / "b") as own:
        own.offer(ROWS, DIGEST)
    path = tmp_path / "b/release/manifest.json"
    manifest = json.loads(path.read_text())
    changed = {"rows": ROWS, "ids": DIGEST, "digest": "0" * 64}.get(entry, manifest[entry])
    if entry == "values":
        changed[0][0] += 0.5
    if entry == "columns":
        changed[0][0] = "income"
    path.write_text(json.dumps({**manifest, entry: changed}))  # other spaces, too: the bytes are not the ones released
    with party(tmp_path / "b") as own, pytest.raises(ReleaseRefused, match="not the one released"):
        own.offer(ROWS, DIGEST)


def test_missing_columns_are_named(tmp_path: Path) -> None:
    with party(tmp_path / "b") as own:
        own.offer(ROWS, DIGEST)
    (tmp_path / "b/release/columns.bin").unlink()
    with party(tmp_path / "b") as own, pytest.raises(ReleaseRefused, match="not the ones released"):
        own.offer(ROWS, DIGEST)


def test_many_partners_at_once_get_one_release(tmp_path: Path) -> None:
    with serving(tmp_path / "b") as (own, location):

        def fetch(number: int) -> bytes:
            with client(location, tmp_path / f"a{number}", attempts=3) as asker:
                return asker.columns().path.read_bytes()

        with ThreadPoolExecutor(6) as pool:
            assert len(set(pool.map(fetch, range(6)))) == 1
        assert [entry.kind for entry in own.ledger.journal()] == ["release", "release"]  # one charge and its note


@pytest.mark.parametrize("name", ["", "../b", "b: written x", "b\nc", "b" * 65, "-b"])
def test_names_are_plain(tmp_path: Path, name: str) -> None:
    with pytest.raises(ParameterError, match="letters, digits"):
        party(tmp_path / "b", name=name)


def test_a_column_that_two_bytes_cannot_hold_is_refused_before_it_is_charged(tmp_path: Path) -> None:
    with pytest.raises(ParameterError, match="can show more than 65535"):
        party(tmp_path / "b", names=["age"], method="piecewise", levels=60_000, epsilon=0.1)
    assert not (tmp_path / "b").exists()


def test_a_table_without_rows_is_released_too(tmp_path: Path) -> None:
    own = FeatureParty("b", declared(list(DOMAIN)), lambda: (TABLE[:0], []), tmp_path / "b", key=KEY)
    with own, FeatureServer(own, "grpc+tls://localhost:0", B, TOKEN) as server:
        location = f"grpc+tls://localhost:{server.port}"
        received = client(location, tmp_path / "a", rows=0, ids=id_digest([], KEY)).columns()
        server.shutdown()
    assert received.rows == 0 and [column.size for column in received.mapped()] == [0] * 5


# ---- nothing is said about the table


def test_an_error_about_the_table_names_no_column_and_no_cell(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    def failing() -> Any:
        raise ValueError("cannot read 'cell 4711'")

    for read, secret in (
        (lambda: (TABLE.assign(diagnosis=1.0), IDS), "diagnosis"),
        (lambda: (TABLE, IDS[1:]), "2999"),
        (failing, "4711"),
    ):
        own = FeatureParty("b", declared(list(DOMAIN)), read, tmp_path / "b", key=KEY)
        with caplog.at_level(logging.DEBUG), own, FeatureServer(own, "grpc+tls://localhost:0", B, TOKEN) as server:
            with pytest.raises(PartyRefused, match="error of its own") as caught:
                client(f"grpc+tls://localhost:{server.port}", tmp_path / "a").columns()
            assert secret not in str(caught.value) + str(caught.value.__cause__)
            assert own.ledger.spent().epsilon == 0
            server.shutdown()
    assert "4711" not in caplog.text and "ValueError in failing" in caplog.text


def test_an_error_in_the_stream_names_no_path(tmp_path: Path) -> None:
    with serving(tmp_path / "b") as (_, location), client(location, tmp_path / "a") as asker:
        asker._hello()
        (tmp_path / "b/release/columns.bin").unlink()
        with pytest.raises(PartyRefused, match="error of its own") as caught:
            asker.columns()
        assert str(tmp_path) not in str(caught.value.__cause__)


def test_a_hello_of_any_text_is_answered_in_words(tmp_path: Path) -> None:
    with serving(tmp_path / "b") as (own, location):
        with pytest.raises(PartyRefused, match="in another order"):
            client(location, tmp_path / "a", ids="é" * 64).columns()
        assert own.ledger.spent().epsilon == 0
    with pytest.raises(ProtocolError, match="not JSON"):
        from_json(b"[" * 200_000)


def test_a_key_that_can_be_guessed_is_refused() -> None:
    with pytest.raises(ParameterError, match="at least 16 bytes"):
        id_digest(IDS, b"short")
    assert id_digest(["\udcff"], KEY) != id_digest(["\udcfe"], KEY)  # ids that are no valid text


def test_sessions_opened_without_the_token_drive_nobody_out(tmp_path: Path) -> None:
    few = partial(feature_party.FeatureServer, most_sessions=8)
    with serving(tmp_path / "b", few) as (own, location), client(location, tmp_path / "a") as asker:
        asker.columns()
        with client(location, tmp_path / "flood") as flood:
            flood._hello()
            for _ in range(30):
                flood._one_result("open", b"")
        assert asker.values([(0, 1)]) == [own.stored.values[0][1]]
    sessions = feature_party._Sessions(8)
    for _ in range(50):
        session = sessions.open()
        sessions.greet(session)
    assert len(sessions._last) == len(sessions._greeted) == 8


# ---- without TLS there is nothing


@pytest.mark.parametrize(
    "location",
    ["grpc+tcp://localhost:0", "grpc://localhost:0", "grpc+unix:///tmp/b", "localhost:0", "grpc+tls://localhost",
     "GRPC+TCP://localhost:0", "grpc+tls://localhost:0?tls=off", " grpc+tcp://localhost:0", "", None],
)  # fmt: skip
def test_both_sides_refuse_a_location_without_tls(tmp_path: Path, location: Any) -> None:
    with party(tmp_path / "b") as own, pytest.raises(ParameterError, match=r"form grpc\+tls://host:port"):
        FeatureServer(own, location, B, TOKEN)
    with pytest.raises(ParameterError, match=r"form grpc\+tls://host:port"):
        client(location, tmp_path / "a")


def test_an_identity_without_an_authority_is_none() -> None:
    """Flight would take the authorities of the system in its place."""
    issued = AUTHORITY.issue("a")
    for name in ("certificate", "key", "authority"):
        parts = {"certificate": issued.certificate, "key": issued.key, "authority": issued.authority, name: b""}
        with pytest.raises(ParameterError, match=f"{name} must be in PEM form"):
            Identity(**parts)
    shown = repr(client("grpc+tls://localhost:1", Path("a"), identity=issued, token=b"secret token 1234"))
    assert "PRIVATE" not in shown and "secret" not in shown


# ---- a member of the federation who searches for an id


def test_an_id_cannot_be_searched_for_by_offers(tmp_path: Path) -> None:
    """Who knows all ids but the last tries one list after the other; starting the server again helps nothing."""
    told = []
    for number in range(ROWS - 50, ROWS):
        with party(tmp_path / "b") as own:
            try:
                own.offer(ROWS, id_digest([*IDS[:-1], f"id{number}"], KEY))
            except ProtocolError as error:
                told.append("compares no more" if "compares no more" in str(error) else "other ids")
    assert told == ["other ids"] * 10 + ["compares no more"] * 40  # the last one was the right list
    assert not (tmp_path / "b/release").exists()
    (tmp_path / "b/refused_offers.json").unlink()  # as the operator does who has found the cause
    with party(tmp_path / "b") as own:
        assert own.offer(ROWS, DIGEST).rows == ROWS


def test_offers_are_limited_after_the_release_too_and_numbers_of_rows_count(tmp_path: Path) -> None:
    with serving(tmp_path / "b", refusals=2) as (own, location):
        client(location, tmp_path / "a").columns()
        assert "2 lists that are not it are refused" in str(own.statement())
        for rows, ids, message in [(7, DIGEST, "another number"), (ROWS, "0" * 64, "another order")]:
            with pytest.raises(PartyRefused, match=message):
                client(location, tmp_path / message, rows=rows, ids=ids).columns()
        with pytest.raises(PartyRefused, match="has refused 2 offers"):
            client(location, tmp_path / "c").columns()


def test_a_refusal_is_on_disk_before_it_is_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: Any, **__: Any) -> None:
        raise OSError("no space left on device")

    with party(tmp_path / "b") as own:
        monkeypatch.setattr(feature_party, "write_json", full)
        with pytest.raises(OSError, match="no space"):  # and not the answer
            own.offer(ROWS, "0" * 64)


# ---- a hostile party B, seen from A


FORGERIES: list[tuple[dict[str, Any], str]] = [
    ({"party": None}, "known form"),
    ({"party": 7}, "known form"),
    ({"columns": {}}, "known form"),
    ({"columns": []}, "not those that"),
    ({"columns": [["age", "uint8", 10]]}, "not those that"),
    ({"columns": [["age", "uint8", 256]] * 5}, "is not known"),
    ({"columns": [["age", "uint64", 3]] * 5}, "is not known"),
    ({"columns": [[1, 2, 3]]}, "known form"),
    ({"transformer": None}, "not understood"),
    ({"transformer": {"columns": 1}}, "not understood"),
    ({"transformer": {"columns": [[[], {}]]}}, "not understood"),
    ({"rows": 10**18}, "another number of rows"),
    ({"digest": 5}, "another number of rows"),
]


@pytest.mark.parametrize(("change", "message"), FORGERIES)
def test_a_forged_manifest_is_refused_by_a(tmp_path: Path, change: dict[str, Any], message: str) -> None:
    class Forging(FeatureServer):
        def _hello(self, request: Any) -> bytes:
            return to_json({**from_json(super()._hello(request)), **change})

    with serving(tmp_path / "b", Forging) as (_, location), pytest.raises(ProtocolError, match=message):
        client(location, tmp_path / "a").columns()
    assert not (tmp_path / "a/columns.part").exists()


@pytest.mark.parametrize("levels", [10**30, -1, 1.5, "many", None])
def test_forged_public_metadata_is_refused_by_a(tmp_path: Path, levels: Any) -> None:
    class Forging(FeatureServer):
        def _hello(self, request: Any) -> bytes:
            manifest = from_json(super()._hello(request))
            return to_json({**manifest, "transformer": {**manifest["transformer"], "levels": levels}})

    with serving(tmp_path / "b", Forging) as (_, location), pytest.raises(ProtocolError, match="not understood"):
        client(location, tmp_path / "a").columns()


def test_answers_without_end_are_not_collected(tmp_path: Path) -> None:
    class Endless(FeatureServer):
        def do_action(self, context: Any, action: Any) -> Any:
            while True:
                yield b"more"

    with serving(tmp_path / "b", Endless) as (_, location), pytest.raises(ProtocolError, match="one answer to 'open'"):
        client(location, tmp_path / "a", timeout=30.0).columns()


@pytest.mark.parametrize("wrong", [math.nan, math.inf, 17.123, "backwards"])
def test_split_values_off_the_levels_are_refused_by_a(tmp_path: Path, wrong: Any) -> None:
    class Lying(FeatureServer):
        def _answer(self, kind: str, body: Any) -> bytes:
            answer = super()._answer(kind, body)
            if kind != "splits":
                return answer
            values = np.frombuffer(answer)[::-1] if wrong == "backwards" else np.full(len(answer) // 8, wrong)
            return bytes(values.astype("<f8").tobytes())

    with serving(tmp_path / "b", Lying) as (_, location), pytest.raises(ProtocolError, match="cannot have"):
        train_vertical(learner(), LABELS, [client(location, tmp_path / "a/b")], tmp_path / "a")
    with serving(tmp_path / "b") as (_, location):  # an honest answer mends it
        model = train_vertical(learner(), LABELS, [client(location, tmp_path / "a/b")], tmp_path / "a")
    assert isinstance(model, VerticalModel)


# ---- party A's folder


def test_columns_of_other_ids_are_not_taken_for_these(tmp_path: Path) -> None:
    with serving(tmp_path / "b") as (_, location):
        client(location, tmp_path / "a").columns()
        other = client(location, tmp_path / "a", ids=id_digest(reversed(IDS), KEY))
        with pytest.raises(ParameterError, match="same ids in the same order"):
            other.columns()


def test_another_learner_or_other_labels_are_trained_anew_on_the_same_columns(tmp_path: Path) -> None:
    from sklearn.ensemble import GradientBoostingClassifier

    def train(labels: Any, trees: int) -> VerticalModel:
        with serving(tmp_path / "b") as (_, location):
            fresh = GradientBoostingClassifier(n_estimators=trees, random_state=0)
            return train_vertical(fresh, labels, [client(location, tmp_path / "a/b")], tmp_path / "a")

    first = train(LABELS, 3)
    received = (tmp_path / "a/b/columns.bin").stat().st_mtime_ns
    assert train(LABELS, 5).learner.n_estimators_ == 5
    again = train(1 - LABELS, 3)
    assert (again.predict(None, {"b": TABLE}) != first.predict(None, {"b": TABLE})).all()
    assert (tmp_path / "a/b/columns.bin").stat().st_mtime_ns == received


def test_the_same_training_again_asks_nobody(tmp_path: Path) -> None:
    from sklearn.ensemble import GradientBoostingClassifier

    unseeded = GradientBoostingClassifier(n_estimators=3, subsample=0.5)
    with serving(tmp_path / "b") as (_, location):
        asker = client(location, tmp_path / "a/b")
        first = train_vertical(unseeded, LABELS, [asker], tmp_path / "a")
    again = train_vertical(unseeded, LABELS, [asker], tmp_path / "a")  # fitted by now, and the server is gone
    assert np.array_equal(again.predict(None, {"b": TABLE}), first.predict(None, {"b": TABLE}))


def test_a_model_that_single_precision_would_confuse_is_not_exported(tmp_path: Path) -> None:
    import xgboost

    table = pd.DataFrame({"account": 1e9 + np.arange(ROWS) % 10})
    made = OrderPreservingTransformer(epsilon=40.0, domain={"account": (1e9, 1e9 + 9)}).fit(table)
    own = FeatureParty("b", made, lambda: (table, IDS), tmp_path / "b", key=KEY)
    labels = (table["account"] >= 1e9 + 5).to_numpy().astype(int)
    with own, FeatureServer(own, "grpc+tls://localhost:0", B, TOKEN) as server:
        stump = xgboost.XGBClassifier(n_estimators=1, max_depth=1, n_jobs=1)
        asker = client(f"grpc+tls://localhost:{server.port}", tmp_path / "a/b")
        model = train_vertical(stump, labels, [asker], tmp_path / "a")
        server.shutdown()
    assert (model.predict(None, {"b": table}) == labels).mean() > 0.99  # in double precision all is well
    with pytest.raises(ParameterError, match="single precision"):
        model.to_xgboost()


# ---- bytes: all of a small training on the wire, handshake included


def test_a_table_of_38_kilobytes_stays_within_the_bound_with_every_byte_counted(tmp_path: Path) -> None:
    rows = 9568
    table = pd.DataFrame(np.random.default_rng(0).uniform(size=(rows, 4)), columns=list("abcd"))
    made = OrderPreservingTransformer(domain=dict.fromkeys("abcd", (0, 1)), epsilon=0.08).fit(table)
    own = FeatureParty("b", made, lambda: (table, range(rows)), tmp_path / "b", key=KEY)
    with own, FeatureServer(own, "grpc+tls://localhost:0", B, TOKEN) as server:
        proxy = CountingProxy(server.port)
        location, ids = f"grpc+tls://localhost:{proxy.port}", id_digest(range(rows), KEY)
        with client(location, tmp_path / "a", rows=rows, ids=ids) as asker:
            asker.columns()
            asker.values([(i, j) for i in range(4) for j in range(1, 10)])
        server.shutdown()
        proxy.close()
    assert 1000 < proxy.bytes <= 1.1 * rows * 4 + 16 * 36


def test_a_server_says_nothing_to_requests_it_does_not_know(tmp_path: Path) -> None:
    with serving(tmp_path / "b") as (_, location), client(location, tmp_path / "a") as asker:
        asker._hello()
        for ask in (
            lambda: list(asker._client.list_flights()),
            lambda: asker._client.get_flight_info(flight.FlightDescriptor.for_path("release")),
            lambda: list(asker._client.list_actions()),
        ):
            with pytest.raises((pa.ArrowException, NotImplementedError), match="NotImplemented"):
                ask()
        assert len(asker.values([(0, 1)])) == 1
