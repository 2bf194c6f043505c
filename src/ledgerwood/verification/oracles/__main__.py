"""Print the table of agreements, or write it as a page."""

from __future__ import annotations

import argparse
from pathlib import Path

from ledgerwood.verification.oracles.agreement import answer_all, page


def main(arguments: list[str] | None = None) -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(prog="python -m ledgerwood.verification.oracles", description=__doc__)
    parser.add_argument("--write", type=Path, metavar="FILE", help="write the page to FILE instead of printing it")
    chosen = parser.parse_args(arguments)
    text = page(answer_all())
    if chosen.write is None:
        print(text)
    else:
        chosen.write.parent.mkdir(parents=True, exist_ok=True)
        chosen.write.write_text(text, encoding="utf-8")
        print(f"wrote {chosen.write}")


if __name__ == "__main__":
    main()
