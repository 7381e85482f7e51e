"""Plots of a model, and reports as a single page to send around."""
