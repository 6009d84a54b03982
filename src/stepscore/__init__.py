"""StepScore scores every step of a recorded robot rollout, not only its end.

The whole public API, from recordings to numbers::

    episodes = stepscore.open_episodes("rollouts/")          # videos, LeRobot, HDF5 ...
    model = stepscore.get_model("embedded")                  # answers a judge's requests
    judge = stepscore.get_judge("topreward", model=model)    # scores an episode
    run = stepscore.score(episodes, judge, out="runs/x")     # resumes if the folder is there
    run = stepscore.open_run("runs/x"); run.curves()         # pyarrow tables
    stepscore.measure(run, by="policy")                      # metrics with intervals; .to_pandas()
    stepscore.compare(run, by="policy")                      # differences with intervals and tests

Names load on first use, so that ``import stepscore`` imports no other library.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from stepscore.analysis import compare as compare
    from stepscore.analysis import measure as measure
    from stepscore.episodes import open_episodes as open_episodes
    from stepscore.judges import get_judge as get_judge
    from stepscore.models import get_model as get_model
    from stepscore.runs import open_run as open_run
    from stepscore.runs import score as score

__version__ = "0.1.0"

_HOMES = {
    "open_episodes": "stepscore.episodes",
    "get_model": "stepscore.models",
    "get_judge": "stepscore.judges",
    "score": "stepscore.runs",
    "open_run": "stepscore.runs",
    "measure": "stepscore.analysis",
    "compare": "stepscore.analysis",
}
__all__ = [
    "__version__",
    "compare",
    "get_judge",
    "get_model",
    "measure",
    "open_episodes",
    "open_run",
    "score",
]


def __getattr__(name: str) -> object:
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'stepscore' has no attribute {name!r}; it has {', '.join(__all__)}")


def __dir__() -> list[str]:
    return sorted(__all__)
