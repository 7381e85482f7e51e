"""Learn predicates from facts and axioms."""
