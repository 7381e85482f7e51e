"""Fast tensor functions for the steps of a plan; each is compared with the reference."""
