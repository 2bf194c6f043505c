"""Compiled loops of the auditor; imported at first use."""
