"""Party A's part from the first byte to the finished model, each step kept on disk so that a crash loses nothing."""

from __future__ import annotations

import hashlib
import logging
import math
import pickle
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ledgerwood._files import owned, read_json, write_durably, write_json
from ledgerwood.errors import ParameterError, ProtocolError
from ledgerwood.learners.data.frames import column_names, raw_columns
from ledgerwood.learners.vertical.feature_client import FeatureClient, Received
from ledgerwood.learners.vertical.messages import WireColumn
from ledgerwood.learners.vertical.model import (
    PartyColumns,
    VerticalModel,
    own_features,
    split_ordinals,
    wanted_by_party,
)

log = logging.getLogger("ledgerwood.opboost")


def train_vertical(
    learner: Any, y: Any, clients: Sequence[FeatureClient], state: str | Path, *, X: Any = None
) -> VerticalModel:
    """Fetch every party's columns, train, ask for the split values, and finish the model.

    Parameters
    ----------
    learner
        An unfitted XGBoost, LightGBM or scikit-learn tree model. Give it a seed: training that a crash interrupts is
        done again.
    y
        The labels, one for each row.
    clients
        The connections to the parties that hold features.
    state
        A folder of party A's own. Call again with the same one to go on after a crash: finished steps are not repeated.
        Another learner, or other labels, is trained anew on the columns that were received.
    X
        Party A's own columns, if any; numbers.

    >>> import tempfile
    >>> from sklearn.tree import DecisionTreeClassifier
    >>> from ledgerwood.learners.vertical import Authority, FeatureClient, FeatureParty, FeatureServer
    >>> from ledgerwood.learners.vertical import OrderPreservingTransformer, id_digest
    >>> ages, ids, y = [[20.0], [30.0], [70.0], [80.0]], ["a", "b", "c", "d"], [0, 0, 1, 1]
    >>> authority, key, token = Authority("demo"), b"k" * 16, b"t" * 16
    >>> ours, theirs = authority.issue("lender"), authority.issue("bank", ["localhost"])
    >>> transformer = OrderPreservingTransformer(epsilon=50.0, domain={"age": (0, 100)}).declare(["age"])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with FeatureParty("bank", transformer, lambda: (ages, ids), f"{folder}/bank", key=key) as party:
    ...         with FeatureServer(party, "grpc+tls://localhost:0", theirs, token) as server:
    ...             client = FeatureClient(f"grpc+tls://localhost:{server.port}", identity=ours, token=token, rows=4,
    ...                                    ids=id_digest(ids, key), state=Path(folder, "columns"))
    ...             model = train_vertical(DecisionTreeClassifier(), y, [client], f"{folder}/lender")
    ...             server.shutdown()
    >>> model.predict(None, {"bank": [[25.0], [75.0]]}).tolist()
    [0, 1]
    """
    folder = Path(state)
    with owned(folder):
        final = folder / "model.pkl"
        _start(folder, learner, y, clients, X)
        if final.exists():
            return VerticalModel.load(final)
        received = [client.columns() for client in clients]
        _check_parties(received, y)
        model = _trained(folder, learner, y, received, X)
        first, ordinals = _places(received, X)
        wanted = wanted_by_party(split_ordinals(model, ordinals), first)
        tables = []
        for number, (client, asked) in enumerate(zip(clients, wanted, strict=True)):
            tables.append(_values(folder / f"splits-{number}.json", client, received[number], asked))
        parties = tuple(
            PartyColumns(
                r.party,
                tuple(column.name for column in r.columns),
                r.transformer,
                tuple({j: v for i, j, v in table if i == number} for number in range(len(r.columns))),
            )
            for r, table in zip(received, tables, strict=True)
        )
        own = () if X is None else tuple(column_names(X))
        VerticalModel(model, own, parties).save(final)
        return VerticalModel.load(final)


def _start(folder: Path, learner: Any, y: Any, clients: Sequence[FeatureClient], X: Any) -> None:
    """Forget what an earlier training left behind unless it was this one; the columns received stay."""
    digest = hashlib.sha256()
    own = None if X is None else own_features(X, tuple(column_names(X)))
    what = type(learner).__qualname__, learner.get_params()  # not the learner: fitting has changed it
    for part in (what, np.asarray(y), own, [client.ids for client in clients]):
        digest.update(pickle.dumps(part))
    mark = {"training": digest.hexdigest()}
    if read_json(folder / "training.json") != mark:
        for name in ("model.pkl", "learner.pkl"):
            (folder / name).unlink(missing_ok=True)
        write_json(folder / "training.json", mark)


def training_table(received: Sequence[Received], X: Any = None) -> Any:
    """The learner's features: party A's columns, then each party's ordinals; nan where a cell was not shown."""
    blocks = [] if X is None else [own_features(X, tuple(column_names(X)))]
    for each in received:
        columns = [_as_numbers(numbers, column) for numbers, column in zip(each.mapped(), each.columns, strict=True)]
        blocks.append(np.column_stack(columns))
    return np.concatenate(blocks, axis=1)


def _as_numbers(numbers: Any, column: WireColumn) -> Any:
    floats = np.asarray(numbers, dtype=np.float32)
    floats[numbers == np.iinfo(column.dtype).max] = np.nan
    return floats


def _check_parties(received: Sequence[Received], y: Any) -> None:
    if not received:
        raise ParameterError("clients", "be at least one", 0)
    names = [each.party for each in received]
    if len(set(names)) != len(names):
        raise ProtocolError(f"two parties call themselves alike: {names}")
    if any(each.rows != len(y) for each in received):
        raise ParameterError("y", f"have the {received[0].rows} rows of the other parties", len(y))


def _trained(folder: Path, learner: Any, y: Any, received: Sequence[Received], X: Any) -> Any:
    path = folder / "learner.pkl"
    if not path.exists():
        if X is not None and (rows := len(raw_columns(X)[0])) != len(y):
            raise ParameterError("X", f"have the {len(y)} rows of the labels", rows)
        log.info("training on %d rows", len(y))
        write_durably(path, pickle.dumps(learner.fit(training_table(received, X), np.asarray(y))))
    return pickle.loads(path.read_bytes())


def _places(received: Sequence[Received], X: Any) -> tuple[list[int], dict[int, int]]:
    """The first feature of each party, and how many ordinals each of the parties' features has."""
    feature = 0 if X is None else len(column_names(X))
    first, ordinals = [], {}
    for each in received:
        first.append(feature)
        for column in each.columns:
            ordinals[feature] = column.ordinals
            feature += 1
    return first, ordinals


def _values(
    path: Path, client: FeatureClient, received: Received, asked: list[tuple[int, int]]
) -> list[tuple[int, int, float]]:
    kept = read_json(path)
    if kept is None or [(i, j) for i, j, _ in kept] != asked:
        values = client.values(asked) if asked else []
        client.close()
        kept = [[i, j, value] for (i, j), value in zip(asked, values, strict=True)]
        _check_values(received, kept)
        write_json(path, kept)
    return [(i, j, value) for i, j, value in kept]


def _check_values(received: Received, table: list[Any]) -> None:
    """Every value must be one that the party's column can show, and grow with the ordinal."""
    columns = [column.values for column in received.transformer.release_.columns for _ in column.names]
    last: dict[int, float] = {}
    for i, _, value in table:  # sorted by column and ordinal
        off = np.abs(columns[i] - value).min() / np.ptp(columns[i])  # another machine may round otherwise
        if not off < 1e-9 or value <= last.get(i, -math.inf):
            raise ProtocolError(f"{received.party!r} answered with split values that its column {i} cannot have")
        last[i] = value
