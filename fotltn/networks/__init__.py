"""Networks: symbols whose tables are computed by modules with parameters."""
