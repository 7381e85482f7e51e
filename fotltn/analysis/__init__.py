"""Analyse axioms over tables, cell by cell: audit, rules, violations, explanations."""
