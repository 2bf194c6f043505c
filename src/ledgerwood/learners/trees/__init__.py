"""Private boosted trees: one algorithm, its components, and the recipes of the papers as data."""
