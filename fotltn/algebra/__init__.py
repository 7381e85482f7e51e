"""Core formulas as real-valued expressions over named axes, and passes that rewrite them."""
