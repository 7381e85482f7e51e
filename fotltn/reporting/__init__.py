"""Records of runs to tables, tests, plots and pages, beside the published figures."""
