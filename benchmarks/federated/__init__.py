"""Maddock et al.'s experiments again, with the federated learner's noise, and what secure aggregation costs."""
