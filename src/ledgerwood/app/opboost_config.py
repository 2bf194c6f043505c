"""The configuration files of ``ledgerwood opboost``: paths are relative to the file, secrets lie in their own files.

Party B::

    name = "bank"
    listen = "grpc+tls://0.0.0.0:8815"
    data = "features.parquet"              # or .csv
    id = "customer"                        # the column of ids, in the order agreed upon
    state = "state"                        # the ledger and the released columns live here
    [tls]
    certificate = "certificate.pem"
    key = "key.pem"
    authority = "authority.pem"
    [secrets]
    token = "token"                        # hexadecimal, at least 16 bytes, shared with party A
    ids = "ids.key"                        # likewise, for the digest of the ids
    [desensitise]
    method = "global_map"
    epsilon = 1.0
    [domain]
    age = { bounds = [0, 100] }
    colour = { categories = ["red", "green"] }

Party A::

    data = "labels.parquet"
    id = "customer"
    label = "target"                       # the other columns are A's own features
    state = "state"
    [tls]      # as above
    [secrets]  # as above
    [learner]
    kind = "xgboost"                       # or "lightgbm", "sklearn"
    task = "classification"                # or "regression"
    n_estimators = 80
    [[party]]
    location = "grpc+tls://bank.example:8815"
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ledgerwood.errors import FormatError, ParameterError

_TRANSFORMER = frozenset({
    "method", "epsilon", "split", "columns_per_record", "theta", "alpha", "levels", "sampler", "missing",
    "parts_public",
})  # fmt: skip


@dataclass(frozen=True)
class Settings:
    """A table of a configuration file; every entry must be known, and relative paths start at the file."""

    content: dict[str, Any]
    file: Path

    @classmethod
    def read(cls, path: Path, required: set[str], optional: frozenset[str] = frozenset()) -> Settings:
        """The file, with exactly the entries that are known."""
        try:
            content = tomllib.loads(path.read_text(encoding="utf-8"))
        except tomllib.TOMLDecodeError as error:
            raise FormatError(f"{path.name!r} is no TOML: {error}") from None
        settings = cls(content, path)
        settings.expect(required, optional)
        return settings

    def expect(self, required: set[str], optional: frozenset[str] = frozenset()) -> None:
        """Raise an error about the first entry that is missing or unknown."""
        missing, unknown = required - set(self.content), set(self.content) - required - optional
        if missing or unknown:
            what = f"lacks {sorted(missing)}" if missing else f"has the unknown entries {sorted(unknown)}"
            raise FormatError(f"{self.file.name!r} {what}")

    def table(self, name: str, required: set[str], optional: frozenset[str] = frozenset()) -> Settings:
        """An inner table."""
        content = self.content.get(name, {})
        if not isinstance(content, dict):
            raise FormatError(f"{name!r} in {self.file.name!r} must be a table")
        inner = Settings(content, self.file)
        inner.expect(required, optional)
        return inner

    def text(self, name: str) -> str:
        """A string."""
        value = self.content[name]
        if not isinstance(value, str) or not value:
            raise FormatError(f"{name!r} in {self.file.name!r} must be a text")
        return value

    def path(self, name: str) -> Path:
        """A path, from the folder of the file."""
        return self.file.parent / self.text(name)

    def secret(self, name: str) -> bytes:
        """The bytes that a file of hexadecimal digits holds."""
        try:
            value = bytes.fromhex(self.path(name).read_text(encoding="ascii").strip())
        except ValueError:
            raise FormatError(f"the file of {name!r} must hold hexadecimal digits") from None
        if len(value) < 16:
            raise ParameterError(name, "have at least 16 bytes", f"<{len(value)} bytes>")
        return value


def identity(settings: Settings) -> Any:
    """The certificate, the key and the authority of a file's ``[tls]``."""
    from ledgerwood.learners.vertical import Identity

    tls = settings.table("tls", {"certificate", "key", "authority"})
    return Identity.read(tls.path("certificate"), tls.path("key"), tls.path("authority"))


def secrets_of(settings: Settings) -> tuple[bytes, bytes]:
    """The token and the key of the ids."""
    table = settings.table("secrets", {"token", "ids"})
    return table.secret("token"), table.secret("ids")


def transformer(settings: Settings) -> tuple[Any, float | None]:
    """The transformer of a party B's file, and the budget if one is set."""
    from ledgerwood.learners.vertical import OrderPreservingTransformer

    chosen = settings.table("desensitise", set(), _TRANSFORMER | {"budget"}).content
    domain: dict[str, Any] = {}
    for name, declared in settings.table("domain", set(), frozenset(settings.content["domain"])).content.items():
        match declared:
            case {"bounds": [lower, upper]} if len(declared) == 1:
                domain[name] = (lower, upper)
            case {"categories": [*categories]} if len(declared) == 1:
                domain[name] = list(categories)
            case _:
                raise FormatError(f"domain.{name} must be {{ bounds = [lower, upper] }} or {{ categories = [...] }}")
    options = {name: value for name, value in chosen.items() if name != "budget"}
    return OrderPreservingTransformer(domain=domain, **options).declare(list(domain)), chosen.get("budget")


def learner(settings: Settings) -> Any:
    """The unfitted learner of a party A's file; entries besides kind and task are its parameters."""
    content = dict(settings.content["learner"])
    kind, task = content.pop("kind", "xgboost"), content.pop("task", "classification")
    if task not in ("classification", "regression"):
        raise ParameterError("task", "be 'classification' or 'regression'", task)
    classifies = task == "classification"
    if kind == "xgboost":
        import xgboost

        return (xgboost.XGBClassifier if classifies else xgboost.XGBRegressor)(**{"random_state": 0, **content})
    if kind == "lightgbm":
        import lightgbm

        made = lightgbm.LGBMClassifier if classifies else lightgbm.LGBMRegressor
        return made(**{"random_state": 0, "verbose": -1, **content})
    if kind == "sklearn":
        from sklearn import ensemble

        made = ensemble.HistGradientBoostingClassifier if classifies else ensemble.HistGradientBoostingRegressor
        return made(**{"random_state": 0, **content})
    raise ParameterError("kind", "be 'xgboost', 'lightgbm' or 'sklearn'", kind)


def read_table(path: Path, id_column: str) -> tuple[Any, Any]:
    """A table of columns and the ids of its rows."""
    from pyarrow import csv, parquet

    table = csv.read_csv(path) if path.suffix == ".csv" else parquet.read_table(path)
    if id_column not in table.column_names:
        raise ParameterError("id", "name a column of the data", id_column)
    return table.drop_columns([id_column]), table[id_column].to_pylist()
