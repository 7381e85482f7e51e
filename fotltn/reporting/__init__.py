"""A model as plots, and as one page that can be sent around."""
