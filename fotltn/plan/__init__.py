"""Build plans from expressions and sizes, and run plans on data."""
