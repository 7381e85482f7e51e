"""A second world, of robots and parcels, with its Bayes limit and the recipe on it."""
