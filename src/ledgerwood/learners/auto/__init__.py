"""The automatic choice: which learner, which settings, from public metadata alone."""
