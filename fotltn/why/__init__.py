"""Why a rule has its value: over bindings and time, and at one cell down to the facts."""

from fotltn.why.explanation import Explanation as Explanation
from fotltn.why.explanation import why as why
from fotltn.why.gradients import Influence as Influence
from fotltn.why.gradients import influence as influence
from fotltn.why.ground import Fact as Fact
from fotltn.why.lines import Timeline as Timeline
from fotltn.why.lines import timelines as timelines
from fotltn.why.node import Node as Node
from fotltn.why.over_time import Row as Row
from fotltn.why.over_time import TruthOverTime as TruthOverTime
from fotltn.why.over_time import truth_over_time as truth_over_time
from fotltn.why.repairs import Flip as Flip
from fotltn.why.repairs import Repair as Repair
from fotltn.why.repairs import repair as repair
from fotltn.why.satisfaction import Satisfaction as Satisfaction
from fotltn.why.satisfaction import satisfaction as satisfaction
from fotltn.why.satisfaction import subject_of as subject_of
from fotltn.why.subject import Cell as Cell
from fotltn.why.subject import Rule as Rule
from fotltn.why.subject import Subject as Subject
from fotltn.why.subject import find_cell as find_cell
from fotltn.why.subject import rule_of as rule_of
from fotltn.why.subject import shared_rule as shared_rule
from fotltn.why.tree import explain as explain
