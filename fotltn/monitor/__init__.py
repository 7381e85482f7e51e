"""Follow axioms on a running trace, step by step: violations, verdicts and degrees."""
