"""The posterior beside the gradient method and the Bayes limit, on three worlds."""
