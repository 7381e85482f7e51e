"""Symbols to tables: facts on disk."""
