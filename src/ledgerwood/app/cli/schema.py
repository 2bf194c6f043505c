"""``schema``: a first version of the public metadata of a file, for the data holder to correct."""

from __future__ import annotations

import json as json_text
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ledgerwood.app.cli.files import check_output, reading
from ledgerwood.app.cli.options import App, Json, examples
from ledgerwood.app.output import CommandOutput
from ledgerwood.errors import ParameterError, did_you_mean

if TYPE_CHECKING:
    from ledgerwood.learners.data.frames import RawColumn

_LOOKED = """\
# Drafted from {path} by LOOKING AT THE DATA, so outside any privacy guarantee: keep this file to yourself
# until you have checked it. Remove the # before what is public knowledge (a codebook, a form, a law) and
# correct it; delete all other comments: what they say is then learned privately. The kinds below are a guess
# from the data.
"""
_PUBLIC = "# Drafted from {path}, which whoever drafted it said to be public.\n"
_MOST_CLASSES = 20


def register(app: typer.Typer) -> None:
    """Add the commands."""
    group = App(
        short_help="Draft the public metadata of a table.",
        help="Public metadata of a table: what may be known without looking at it.",
        epilog=examples("ledgerwood schema draft adult.csv --target income --output draft.toml"),
    )

    @group.callback()
    def root() -> None:
        pass

    group.command(
        "draft",
        short_help="A first version of a schema. It looks at the data.",
        epilog=examples(
            "ledgerwood schema draft adult.csv --target income --output draft.toml",
            "ledgerwood schema draft adult.csv --target income --public --output public.toml --json",
        ),
    )(draft)
    app.add_typer(group, name="schema")


@dataclass(frozen=True)
class _SeenValues:
    """What a column holds: the limits of its numbers, or its values."""

    name: str
    limits: tuple[float, float] | None
    values: tuple[Any, ...]

    @property
    def kind(self) -> str:
        return "category" if self.limits is None else "number"

    @property
    def seen(self) -> str:
        if self.limits is not None:
            return f"{self.limits[0]:g} to {self.limits[1]:g}"
        return f"{len(self.values)} values"


def draft(
    table: Annotated[str, typer.Argument(metavar="TABLE", show_default=False, help="A .csv or .parquet file.")],
    output: Annotated[str, typer.Option("--output", "-o", metavar="FILE", help="A new .toml file.")],
    target: Annotated[str | None, typer.Option(help="The column to predict.")] = None,
    public: Annotated[
        bool, typer.Option("--public", help="The table is public: what it holds is written as public metadata.")
    ] = False,
    json: Json = False,
) -> None:
    """Write a first version of a schema: what each column holds, and bounds and categories to correct.

    It LOOKS AT THE DATA. Without --public all that was seen is written as comments: public metadata is what you know
    without looking.
    """
    from ledgerwood.learners.data.files import open_files
    from ledgerwood.learners.data.frames import raw_columns

    check_output("output", output, ".toml")
    files = open_files(table)
    if target is not None and target not in files.names:
        raise ParameterError("target", f"be a column of {table}", target, did_you_mean(target, files.names))
    with reading(table) as progress:
        found = [_seen(column) for column in raw_columns(files.read(progress=progress))]
    with open(output, "x", encoding="utf-8") as file:
        file.write(_text(table, found, target, public=public))
    columns = {one.name: one.kind for one in found}
    answer = CommandOutput({"schema": output, "columns": columns, "looked_at_the_data": True})
    answer.table(["column", "kind", "seen"], [[one.name, one.kind, one.seen] for one in found])
    answer.say("These were read from the data: outside any privacy guarantee, for the data holder only.")
    answer.say(f"Written: {output}").print(as_json=json)


def _seen(column: RawColumn) -> _SeenValues:
    import numpy as np

    numbers = column.numbers().astype(np.float64)
    finite = numbers[np.isfinite(numbers)]
    cells = column.values()
    texts = [] if cells.dtype.kind in "biuf" else [cell for cell in cells.tolist() if cell is not None]
    if 2 * len(finite) > len(texts):  # most cells are numbers
        seen = tuple(np.unique(finite).tolist())
        return _SeenValues(str(column.name), (float(finite.min()), float(finite.max())), seen)
    return _SeenValues(str(column.name), None, tuple(sorted(set(map(str, texts)))))


def _text(path: str, columns: list[_SeenValues], target: str | None, *, public: bool) -> str:
    from ledgerwood.learners.data.columns import MOST_CATEGORIES

    mark = "" if public else "# "
    top, bounds, categories, kinds = [], [], [], []
    for one in columns:
        key = json_text.dumps(one.name, ensure_ascii=False)
        if one.name == target:
            if len(one.values) <= _MOST_CLASSES:
                values = [int(v) if isinstance(v, float) and v == int(v) else v for v in one.values]
                top.append(f"{mark}classes = {json_text.dumps(values, ensure_ascii=False)}")
            elif one.limits is not None:
                top.append(f"{mark}target_bounds = {_limits(one.limits)}")
            continue
        known = True
        if one.limits is not None:
            bounds.append(f"{mark}{key} = {_limits(one.limits)}")
        elif 0 < len(one.values) <= MOST_CATEGORIES:
            categories.append(f"{mark}{key} = {json_text.dumps(list(one.values), ensure_ascii=False)}")
        else:
            known = False
        if not (known and public):
            kinds.append(f'{key} = "{one.kind}"  # seen: {one.seen}')
    parts = [(_PUBLIC if public else _LOOKED).format(path=path), *top]
    for name, lines in (("bounds", bounds), ("categories", categories), ("kinds", kinds)):
        if lines:
            parts += ["", f"[{name}]", *lines]
    return "\n".join(parts) + "\n"


def _limits(limits: tuple[float, float]) -> str:
    low, high = limits
    return f"[{low!r}, {high!r}]" if low < high else f"[{low - 1!r}, {high + 1!r}]"
