"""Projects: a folder whose TOML file names theory, data, networks, objective and training."""
