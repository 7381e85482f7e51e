"""Syntax trees of formulas and theories: read from text or Python, printed back as text."""
