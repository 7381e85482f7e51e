"""Expressions and sizes to plans, plans to tensors."""
