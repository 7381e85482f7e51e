"""Projects: a folder with a TOML file that names theory, data, networks, objective and training."""
