"""Print the scoreboard of the zoo; exit code 1 if the exact verifier is wrong about an entry.

Usage: python -m ledgerwood.verification.zoo [--audit] [--samples N] [--confidence C] [--seed N] [--json] [NAME ...]
"""

from __future__ import annotations

import argparse
import sys

from ledgerwood.verification.zoo import ZOO
from ledgerwood.verification.zoo.scoreboard import header, line, score, summary, to_json


def main(arguments: list[str] | None = None) -> int:
    """Run the command."""
    parser = argparse.ArgumentParser(
        prog="python -m ledgerwood.verification.zoo",
        description="Judge every mechanism of the zoo: exactly, and with --audit also by sampling at its pair.",
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help="entries to judge (all)")
    parser.add_argument("--audit", action="store_true", help="also run the statistical auditor")
    parser.add_argument("--samples", type=int, default=2_000_000, help="outputs per input for the audit (2000000)")
    parser.add_argument("--confidence", type=float, default=0.99, help="confidence of each audit (0.99)")
    parser.add_argument("--seed", type=int, default=0, help="seed of the audit (0)")
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    options = parser.parse_args(arguments)
    unknown = sorted(set(options.names) - set(ZOO))
    if unknown:
        parser.error(f"no entry called {', '.join(unknown)}; there are: {', '.join(ZOO)}")

    entries = [ZOO[name] for name in options.names] or list(ZOO.values())
    if not options.json:
        print(header(audited=options.audit))
    samples = options.samples if options.audit else None
    scores = score(entries, samples=samples, seed=options.seed, confidence=options.confidence)
    found = []
    for entry, each in zip(entries, scores, strict=True):
        found.append(each)
        if not options.json:
            print(line(entry, each), flush=True)
    print(to_json(found) if options.json else summary(found))
    return 0 if all(each.right for each in found) else 1


if __name__ == "__main__":
    sys.exit(main())
