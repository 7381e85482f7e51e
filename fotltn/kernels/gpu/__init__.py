"""Triton kernels, which are available only with a GPU."""
