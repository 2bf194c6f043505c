"""Hypothesis measures no time here: a busy machine must not fail a test. And what pytest does not read."""

from hypothesis import settings

settings.register_profile("ledgerwood", parent=settings(), deadline=None)
settings.load_profile("ledgerwood")

#: It wrote the stored files with the private names of its day: no module to look for doctests in.
collect_ignore = ["tests/stored/generate.py"]
