"""Plots over results, for figures of your own.

A function takes results, and gives matplotlib's axes (or, where there are several, its figure) to
be changed, shown or saved. Most draw on axes that are given as `ax=`; without, they make a figure.
matplotlib is loaded when the first figure is made, and nothing of its global state is touched.
"""

from __future__ import annotations

from fotltn.reporting.cells import Band as Band
from fotltn.reporting.cells import band as band
from fotltn.reporting.cells import heat_map as heat_map
from fotltn.reporting.cells import truth_over_time as truth_over_time
from fotltn.reporting.curves import axiom_curves as axiom_curves
from fotltn.reporting.curves import calibration as calibration
from fotltn.reporting.curves import precision_recall as precision_recall
from fotltn.reporting.curves import training_curves as training_curves
from fotltn.reporting.theme import save as save
