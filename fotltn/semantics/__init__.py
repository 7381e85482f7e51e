"""The meaning of formulas: operators, laws, and the two reference evaluators."""
