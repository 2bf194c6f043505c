"""Linear learners: Rho et al. again, against peers, on splits that no default was chosen on."""
