"""StepScore scores every step of a recorded robot rollout, not only its end.

The whole public API, in the order of the data's way::

    episodes = stepscore.open_episodes("rollouts/")          # videos, LeRobot, HDF5 ...
    judge = stepscore.get_judge("linear-time")               # what scores an episode
    run = stepscore.score(episodes, judge, out="runs/x")     # resumes if the folder is there
    run = stepscore.open_run("runs/x"); run.curves()         # pyarrow tables

Names load on first use, so that ``import stepscore`` costs nothing.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from stepscore.episodes import open_episodes as open_episodes
    from stepscore.judges import get_judge as get_judge
    from stepscore.runs import open_run as open_run
    from stepscore.runs import score as score

__version__ = "0.1.0"

_HOMES = {
    "open_episodes": "stepscore.episodes",
    "get_judge": "stepscore.judges",
    "score": "stepscore.runs",
    "open_run": "stepscore.runs",
}
__all__ = ["__version__", "get_judge", "open_episodes", "open_run", "score"]


def __getattr__(name: str) -> object:
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'stepscore' has no attribute {name!r}; it has {', '.join(__all__)}")


def __dir__() -> list[str]:
    return sorted(__all__)
