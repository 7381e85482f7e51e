"""Plots over results, for figures of your own.

A function takes results, and gives matplotlib's axes (or, where there are several, its figure) to
be changed, shown or saved. Most draw on axes that are given as `ax=`; without, they make a figure.
matplotlib is loaded when the first figure is made, and nothing of its global state is touched.
"""

from __future__ import annotations

from fotltn.report.cells import Band as Band
from fotltn.report.cells import band as band
from fotltn.report.cells import heat_map as heat_map
from fotltn.report.cells import truth_over_time as truth_over_time
from fotltn.report.curves import axiom_curves as axiom_curves
from fotltn.report.curves import calibration as calibration
from fotltn.report.curves import precision_recall as precision_recall
from fotltn.report.curves import training_curves as training_curves
from fotltn.report.look import save as save
