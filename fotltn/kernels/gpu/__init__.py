"""Kernels in Triton, which is only there with a GPU."""
