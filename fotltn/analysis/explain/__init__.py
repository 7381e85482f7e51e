"""Why a rule has its value: over bindings and time, and at one cell down to the facts."""

from fotltn.analysis.cells import Cell as Cell
from fotltn.analysis.cells import Rule as Rule
from fotltn.analysis.cells import Subject as Subject
from fotltn.analysis.cells import find_cell as find_cell
from fotltn.analysis.cells import rule_of as rule_of
from fotltn.analysis.cells import shared_rule as shared_rule
from fotltn.analysis.explain.explanation import Explanation as Explanation
from fotltn.analysis.explain.explanation import why as why
from fotltn.analysis.explain.gradients import Influence as Influence
from fotltn.analysis.explain.gradients import influence as influence
from fotltn.analysis.explain.ground import Fact as Fact
from fotltn.analysis.explain.lines import Timeline as Timeline
from fotltn.analysis.explain.lines import timelines as timelines
from fotltn.analysis.explain.node import Node as Node
from fotltn.analysis.explain.repairs import Flip as Flip
from fotltn.analysis.explain.repairs import Repair as Repair
from fotltn.analysis.explain.repairs import repair as repair
from fotltn.analysis.explain.tree import explain as explain
from fotltn.analysis.over_time import Row as Row
from fotltn.analysis.over_time import TruthOverTime as TruthOverTime
from fotltn.analysis.over_time import truth_over_time as truth_over_time
from fotltn.analysis.satisfaction import Satisfaction as Satisfaction
from fotltn.analysis.satisfaction import satisfaction as satisfaction
from fotltn.analysis.satisfaction import subject_of as subject_of
