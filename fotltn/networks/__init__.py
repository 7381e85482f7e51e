"""Networks: modules with parameters that compute the tables of predicates and functions."""
