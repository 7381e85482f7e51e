"""Real clips: whether temporal rules help to learn on them."""
