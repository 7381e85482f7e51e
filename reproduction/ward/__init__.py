"""A third world, a hospital ward with a learned relation, and its Bayes limit."""
