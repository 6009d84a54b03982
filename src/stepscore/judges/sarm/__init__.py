"""The judge ``sarm``: stage and progress from a trained network, over a whole episode or online."""

from stepscore.judges.sarm.judge import Sarm
from stepscore.judges.sarm.session import SarmSession

__all__ = ["Sarm", "SarmSession"]
