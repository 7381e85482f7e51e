"""Follow axioms on a running trace: verdicts and degrees, step by step."""
