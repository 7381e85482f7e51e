"""The inspector: local web pages about a model, two models, or a theory with facts."""
