"""Records of runs, and tables, figures and pages that compare them with the published figures."""
