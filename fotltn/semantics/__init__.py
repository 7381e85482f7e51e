"""What the symbols mean: operators, laws, and the two reference evaluators."""
