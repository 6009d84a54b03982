"""Recorded rollouts, in one shape whatever wrote them.

:func:`open_episodes` lists the episodes of a source without decoding anything; an :class:`Episode`
gives the frames it is asked for as a :class:`Clip`. Each format is one reader, in one file.
:func:`changed` makes controls of an episode, by the names in ``CHANGES``; :func:`match_lengths` cuts failures
to the lengths of successes.
"""

from stepscore.episodes.changes import CHANGES as CHANGES
from stepscore.episodes.changes import changed as changed
from stepscore.episodes.clip import Clip as Clip
from stepscore.episodes.episode import Episode as Episode
from stepscore.episodes.labels import Label as Label
from stepscore.episodes.labels import Labels as Labels
from stepscore.episodes.labels import Stage as Stage
from stepscore.episodes.length_matching import length_auc as length_auc
from stepscore.episodes.length_matching import match_lengths as match_lengths
from stepscore.episodes.source import Episodes as Episodes
from stepscore.episodes.source import open_episodes as open_episodes
from stepscore.episodes.source import readers as readers
from stepscore.episodes.subgoals import Subgoal as Subgoal
from stepscore.episodes.view import View as View

__all__ = [
    "CHANGES",
    "Clip",
    "Episode",
    "Episodes",
    "Label",
    "Labels",
    "Stage",
    "Subgoal",
    "View",
    "changed",
    "length_auc",
    "match_lengths",
    "open_episodes",
    "readers",
]
