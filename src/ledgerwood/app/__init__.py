"""The calculator: a command line, a planner page and reports over the planner, the learners and the auditor.

Nothing here computes privacy; it asks :mod:`ledgerwood.accounting` and the other packages and shows what they say.
"""
