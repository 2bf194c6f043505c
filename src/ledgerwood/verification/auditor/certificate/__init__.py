"""Certified lower bounds: the only part of the auditor with a guarantee. It imports nothing else of the auditor."""
