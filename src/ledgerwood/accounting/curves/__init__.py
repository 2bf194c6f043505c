"""Privacy curves and the mathematics of converting between them: Rényi, Gaussian, dominating pairs. No cost is known here."""
