"""The configuration files of ``ledgerwood opboost``: paths are relative to the file, secrets lie in their own files.

Party B::

    name = "bank"
    listen = "grpc+tls://0.0.0.0:8815"     # TLS always: no other scheme is taken
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

    def table(self, name: str, required: set[str], optional: frozenset[str] | None = frozenset()) -> Settings:
        """An inner table; whatever entries if ``optional`` is None."""
        content = self.content.get(name, {})
        if not isinstance(content, dict):
            raise FormatError(f"{name!r} in {self.file.name!r} must be a table")
        inner = Settings(content, self.file)
        inner.expect(required, frozenset(content) if optional is None else optional)
        return inner

    def tables(self, name: str, required: set[str]) -> list[Settings]:
        """Inner tables that may repeat: ``[[name]]``."""
        content = self.content.get(name, [])
        if not isinstance(content, list) or not all(isinstance(each, dict) for each in content):
            raise FormatError(f"{name!r} in {self.file.name!r} must be tables, each under [[{name}]]")
        several = [Settings(each, self.file) for each in content]
        for each in several:
            each.expect(required)
        return several

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
    for name, declared in settings.table("domain", set(), None).content.items():
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
    content = settings.table("learner", set(), None).content.copy()
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
        if unknown := sorted(set(content) - set(made().get_params())):
            raise ParameterError("learner", f"have parameters of {made.__name__} only", unknown)
        return made(**{"random_state": 0, **content})
    raise ParameterError("kind", "be 'xgboost', 'lightgbm' or 'sklearn'", kind)


def read_table(path: Path, id_column: str, *, guess_types: bool) -> tuple[Any, Any]:
    """The columns of a file and the ids of its rows.

    A CSV file has no types. Guessing them looks at all rows, so that one record's cell would decide how the cells of
    all others are read: party B must not, and gets texts, each read on its own.
    """
    from ledgerwood.learners.data.files import open_files
    from ledgerwood.learners.data.frames import unit_column

    files = open_files(path)
    if id_column not in files.names:
        raise ParameterError("id", "name a column of the data", id_column)
    if guess_types and not files.has_types:
        import pyarrow as pa
        from pyarrow import csv

        table = csv.read_csv(path, convert_options=csv.ConvertOptions(column_types={id_column: pa.string()}))
    else:
        table = files.read()
    return table.drop_columns([id_column]), unit_column(table, id_column)


def check_columns(settings: Settings) -> None:
    """A feature party's file must have its ids and the declared columns, and nothing else: told before it serves."""
    from ledgerwood.learners.data.files import open_files

    names = open_files(settings.path("data")).names
    declared = {settings.text("id"), *settings.content["domain"]}
    if set(names) != declared:
        raise ParameterError(
            "data", "have exactly the column of ids and the declared columns", sorted(set(names) ^ declared),
            "Declare each one's bounds or categories under [domain], or leave it out of the file.",
        )  # fmt: skip
