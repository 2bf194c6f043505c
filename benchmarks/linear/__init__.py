"""Linear learners: P4 again, against peers, on splits that no default was chosen on."""
