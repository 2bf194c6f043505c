"""Adaptive compositions of bounded-range selections: the exact recursion and the profile that it computes."""
