"""Benchmarks: each is one command that prints a table and can write JSON."""
