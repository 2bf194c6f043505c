"""Privacy curves and how to convert between them: Rényi, Gaussian, dominating pairs. No cost is known here."""
