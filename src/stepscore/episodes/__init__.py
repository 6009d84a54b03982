"""Recorded rollouts, in one shape whatever wrote them.

:func:`open_episodes` lists the episodes of a source without decoding anything; an :class:`Episode`
gives the frames it is asked for as a :class:`Clip`. Each format is one reader, in one file.
"""

from stepscore.episodes.clip import Clip as Clip
from stepscore.episodes.episode import Episode as Episode
from stepscore.episodes.labels import Label as Label
from stepscore.episodes.labels import Labels as Labels
from stepscore.episodes.labels import Stage as Stage
from stepscore.episodes.source import Episodes as Episodes
from stepscore.episodes.source import open_episodes as open_episodes
from stepscore.episodes.source import readers as readers
from stepscore.episodes.subgoals import Subgoal as Subgoal
from stepscore.episodes.view import View as View

__all__ = [
    "Clip",
    "Episode",
    "Episodes",
    "Label",
    "Labels",
    "Stage",
    "Subgoal",
    "View",
    "open_episodes",
    "readers",
]
