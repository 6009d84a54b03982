"""StepScore scores every step of a recorded robot rollout, not only its end.

The whole public API, from recordings to numbers::

    episodes = stepscore.open_episodes("rollouts/")          # videos, LeRobot, HDF5 ...
    model = stepscore.get_model("embedded")                  # answers a judge's requests
    judge = stepscore.get_judge("topreward", model=model)    # scores an episode
    run = stepscore.score(episodes, judge, out="runs/x")     # resumes if the folder is there
    run = stepscore.open_run("runs/x"); run.curves()         # pyarrow tables
    stepscore.measure(run, by="policy")                      # metrics with intervals; .to_pandas()
    stepscore.compare(run, by="policy")                      # differences with intervals and tests
    stepscore.draw(run, "curves")                            # a figure for a paper or a notebook
    stepscore.write_report([run], "report/")                 # a page to look at, with its explorer

Names load on first use, so that ``import stepscore`` imports no other library.
"""

from typing import TYPE_CHECKING

from stepscore._imports import lazy_attributes

if TYPE_CHECKING:
    from stepscore.analysis import compare as compare
    from stepscore.analysis import measure as measure
    from stepscore.episodes import open_episodes as open_episodes
    from stepscore.judges import get_judge as get_judge
    from stepscore.models import get_model as get_model
    from stepscore.report import draw as draw
    from stepscore.report import write_report as write_report
    from stepscore.runs import open_run as open_run
    from stepscore.runs import score as score

__version__ = "0.1.0"

_HOMES = {
    "open_episodes": "episodes",
    "get_model": "models",
    "get_judge": "judges",
    "score": "runs",
    "open_run": "runs",
    "measure": "analysis",
    "compare": "analysis",
    "draw": "report",
    "write_report": "report",
}
__all__ = [
    "__version__",
    "compare",
    "draw",
    "get_judge",
    "get_model",
    "measure",
    "open_episodes",
    "open_run",
    "score",
    "write_report",
]


__getattr__ = lazy_attributes(__name__, _HOMES)


def __dir__() -> list[str]:
    return sorted(__all__)
