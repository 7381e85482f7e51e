"""Syntax trees to checked core formulas."""
