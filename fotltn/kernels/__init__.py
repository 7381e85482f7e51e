"""Fast tensor functions for the steps of a plan; tests compare each with the reference."""
