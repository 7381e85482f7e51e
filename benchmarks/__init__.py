"""Benchmarks: one command each, a table and JSON."""
