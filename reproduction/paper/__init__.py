"""The paper's data sets, methods and runs, and the Bayes limit on the same labels."""
