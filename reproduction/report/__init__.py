"""Records of runs, and tables, figures and pages of them beside the published figures."""
