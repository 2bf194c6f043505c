"""``python -m benchmarks.federated.cost``: what secure aggregation of one vector costs beyond its transport.

114 688 entries (4 096 leaf or histogram cells of 28 features) from three clients, all in one process: CPU and wall
time of each side's four parts, the noise apart, and the bytes that each client sends.
"""

from __future__ import annotations

import statistics
import time
from collections import defaultdict
from fractions import Fraction

import numpy as np
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from ledgerwood.learners.federated.protocol import Round
from ledgerwood.learners.federated.secure_aggregation import ClientRound, ServerRound
from ledgerwood.mechanisms.randomness import source_of
from ledgerwood.mechanisms.sampling import draws

ENTRIES, CLIENTS, RUNS = 114_688, 3, 15


def once(bits: int, silent: int) -> tuple[dict[str, float], int]:
    """Run a round in which the last ``silent`` clients send no vector; return seconds by part, and bytes per entry."""
    keys = {i: Ed25519PrivateKey.generate() for i in range(CLIENTS)}
    identities = {i: key.public_key().public_bytes_raw() for i, key in keys.items()}
    facts = Round(bytes(32), identities, ENTRIES, bits, 2)
    values = {i: np.random.default_rng(i).integers(-(10**6), 10**6, ENTRIES) for i in keys}
    spent: dict[str, float] = defaultdict(float)
    last = [time.perf_counter(), time.process_time()]

    def lap(part: str) -> None:
        now = [time.perf_counter(), time.process_time()]
        spent[part] += now[0] - last[0]
        spent[part + " CPU"] += now[1] - last[1]
        last[:] = now

    server = ServerRound(facts)
    clients = {i: ClientRound(facts, i, key) for i, key in keys.items()}
    ads = server.keys([client.advertise() for client in clients.values()])
    envelopes = server.envelopes({i: client.share(ads) for i, client in clients.items()})
    lap("keys and shares")
    masked = {i: clients[i].mask(values[i], envelopes[i]) for i in list(clients)[: CLIENTS - silent]}
    lap("masks of all clients")
    survivors = server.survivors(masked)
    signed = server.confirmed({i: clients[i].confirm(survivors) for i in survivors})
    total = server.total([clients[i].unmask(signed) for i in survivors])
    lap("opening")
    assert np.array_equal(total, sum(values[i] for i in survivors))
    return dict(spent), len(masked[0])


def main() -> None:
    """Print medians."""
    for bits in (32, 40):
        for silent in (0, 1):
            runs = [once(bits, silent) for _ in range(RUNS)]
            parts = {part: statistics.median(run[0][part] for run in runs) * 1e3 for part in runs[0][0]}
            wall = sum(value for part, value in parts.items() if not part.endswith("CPU"))
            text = ", ".join(f"{part} {value:.1f}" for part, value in parts.items())
            per_entry = runs[0][1] / ENTRIES
            print(f"{bits} bits, {silent} silent: {wall:.1f} ms in all ({text}); {per_entry:.2f} bytes an entry")
    source = source_of(None)
    for sigma in (1000, 10_000):
        share = Fraction(sigma**2, CLIENTS)
        draws.skellam(share, 10, source)  # the table of this variance
        began = time.process_time()
        draws.skellam(share, ENTRIES, source)
        spent = (time.process_time() - began) * 1e3
        print(f"one client's share of Skellam noise of standard deviation {sigma} steps: {spent:.1f} ms CPU")


if __name__ == "__main__":
    main()
