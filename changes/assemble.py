"""Print the changelog section that the files of this folder give: ``python changes/assemble.py``."""

from __future__ import annotations

import re
import sys
from pathlib import Path

KINDS = {
    "privacy": "Privacy",
    "added": "Added",
    "changed": "Changed",
    "removed": "Removed",
    "fixed": "Fixed",
}
HERE = Path(__file__).parent


def section(folder: Path) -> str:
    """Return one heading for each kind of change, with a bullet for each file, or raise with what is wrong."""
    found: dict[str, list[str]] = {kind: [] for kind in KINDS}
    for file in sorted(folder.glob("*.md")):
        if file.name == "README.md":
            continue
        named = re.fullmatch(rf"[a-z0-9-]+\.({'|'.join(KINDS)})\.md", file.name)
        text = " ".join(file.read_text(encoding="utf-8").split())
        if named is None:
            raise ValueError(f"{file.name} must be named <name>.<kind>.md with a kind of {', '.join(KINDS)}")
        if not text or text[0] in "#-*":
            raise ValueError(f"{file.name} must hold one to five sentences without a heading or a bullet")
        found[named[1]].append(f"- {text}")
    return "\n\n".join(f"### {KINDS[kind]}\n\n" + "\n".join(lines) for kind, lines in found.items() if lines)


if __name__ == "__main__":
    try:
        print(section(HERE))
    except ValueError as error:
        sys.exit(str(error))
