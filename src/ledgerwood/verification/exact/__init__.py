"""The exact verifier: output distributions as exact numbers, compared with a claim without sampling."""
