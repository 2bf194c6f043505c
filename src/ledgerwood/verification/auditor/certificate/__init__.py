"""Certified lower bounds: the only part of the auditor that carries a guarantee. It imports nothing else of the auditor."""
