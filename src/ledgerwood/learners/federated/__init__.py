"""Training on rows that many parties hold: the server sees noisy sums only."""
