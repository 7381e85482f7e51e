"""The paper's experiments, and the study of the recipe; no part of the installed package."""
