"""Learning: predicates from facts and axioms."""
