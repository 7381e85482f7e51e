"""Do rules help on real data? Pairs of people in CAVIAR: who walks together, and who meets."""
