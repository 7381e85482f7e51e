"""Compare the posterior with the gradient method and the Bayes limit, on three worlds."""
