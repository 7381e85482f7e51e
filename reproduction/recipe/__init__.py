"""The recipe on the paper's scenes, its ablations, and the page about them."""
