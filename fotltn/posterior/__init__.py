"""Worlds that obey the axioms, sampled: probabilities of atoms and of formulas."""
