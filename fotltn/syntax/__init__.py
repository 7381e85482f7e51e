"""Text and Python to syntax trees, and back."""
