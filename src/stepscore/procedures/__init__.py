"""The steps of a task: drafting subgoals from an instruction.

:func:`plan_subgoals` asks a model for ordered subgoals that can be checked in the picture; they stay marked
as unreviewed until a person changes the mark.
"""

from stepscore.procedures.plan import Draft as Draft
from stepscore.procedures.plan import plan_subgoals as plan_subgoals
from stepscore.procedures.plan import write_subgoals as write_subgoals

__all__ = ["Draft", "plan_subgoals", "write_subgoals"]
