"""The inspector: a local web page over a model, two of them, or a theory with facts."""
