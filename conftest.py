"""Hypothesis measures no time here: a busy machine must not fail a test."""

from hypothesis import settings

settings.register_profile("ledgerwood", parent=settings(), deadline=None)
settings.load_profile("ledgerwood")
