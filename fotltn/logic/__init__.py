"""Check syntax trees, and turn them into core formulas."""
