"""How long tests wait before they call something hung: far longer than anything takes."""

#: Seconds. A machine that is ten times overloaded must not come near it.
PATIENCE = 900
