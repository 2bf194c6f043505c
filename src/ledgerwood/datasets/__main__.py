"""Write a packaged table as a CSV file, with its schema: ``python -m ledgerwood.datasets adult``."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from ledgerwood.datasets import load_adult, load_bank

TABLES = {"adult": (load_adult, "income"), "bank": (load_bank, "subscribed")}


def main(arguments: Sequence[str] | None = None) -> None:
    """Write NAME.csv, the target as its last column, and schema.json."""
    parser = argparse.ArgumentParser("python -m ledgerwood.datasets", description=main.__doc__)
    parser.add_argument("name", choices=TABLES)
    name = parser.parse_args(arguments).name
    table, schema = Path(f"{name}.csv"), Path("schema.json")
    for path in (table, schema):
        if path.exists():
            parser.error(f"{path} is already there; it was left as it is")
    load, target = TABLES[name]
    data = load()
    data.X.assign(**{target: data.y}).to_csv(table, index=False)
    schema.write_text(data.schema.to_json(), encoding="utf-8")
    print(f"Written: {table} ({len(data.y)} rows, the target is {target!r}), {schema}")


if __name__ == "__main__":
    main()
