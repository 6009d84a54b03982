"""The judge ``recorded``: curves and verdicts that another tool wrote, in the formats it knows."""

from stepscore.judges.recorded.judge import Recorded

__all__ = ["Recorded"]
