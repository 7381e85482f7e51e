"""The paper's experiments and the studies of this project; not part of the installed package."""

#: The largest size of a file of JSON records, in bytes.
MAX_RECORDS = 2**30
