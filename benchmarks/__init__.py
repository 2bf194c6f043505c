"""Speed and utility, as ratios against peers in one run: `python -m benchmarks.NAME`."""
