"""Why a cell has its value, down to the facts, and what would change it."""
