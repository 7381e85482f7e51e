"""Axioms on a trace that is still going on: verdicts and degrees, step by step."""
