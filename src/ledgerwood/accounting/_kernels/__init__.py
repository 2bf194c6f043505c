"""Compiled kernels of the accountants; numba is imported with the first kernel used, never before."""
