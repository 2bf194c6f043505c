"""Speed as ratios against peers, and reproductions of the papers' tables."""
