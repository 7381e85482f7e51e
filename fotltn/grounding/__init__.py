"""Read facts and features from tables, and turn them into tensors and labels."""
