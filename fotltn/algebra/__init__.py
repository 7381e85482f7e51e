"""Core formulas as real-valued expressions over named axes, and the passes that rewrite them."""
