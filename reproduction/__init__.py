"""The paper's experiments, and the study of the recipe; no part of the installed package."""

#: The most bytes of a file of records in JSON.
MAX_RECORDS = 2**30
