"""Speed as ratios against peers, measured in the same run; reproductions of the papers."""
