"""The experiments of the papers on private boosted trees, in small, resumable jobs."""
