"""The embedded judge on the same videos, without training: growing prefixes, and its two answers in words."""

from __future__ import annotations

import json
import math
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from benchmarks.embedded.evaluate import judge_of
from benchmarks.embedded.run_judge import run_judge
from benchmarks.embedded.scoring import in_memory
from benchmarks.sarm.judgements import Prediction
from stepscore.episodes import Episode
from stepscore.judges import Judge
from stepscore.judges.hop import Hop
from stepscore.judges.published.procvlm import ProcVlm
from stepscore.judges.topreward import TopReward
from stepscore.models.embedded.model import CALIBRATION, EmbeddedModel
from stepscore.training.embedded.tasks import SIZE, VIEW
from stepscore.types import Curve

TOPREWARD, PROCVLM, HOP = "embedded judge, topreward", "embedded judge, procvlm", "embedded judge, hop"
POINTS = 8
"""Points of an episode that procvlm and hop judge."""


@dataclass(frozen=True)
class ZeroShot:
    """The embedded judge, and its judgements so far.

    Attributes:
        model: The embedded model, without its gate.
        judgements: File of judgements, a line each; an episode in it is not judged again.
    """

    model: EmbeddedModel
    judgements: Path

    def topreward(self, calibration: Path | None = None) -> TopReward:
        """Return the judge as the package uses it: from two frames on, and calibrated.

        Args:
            calibration: The calibration map; by default the one beside the weights.
        """
        default = Path(self.model.checkpoint) / CALIBRATION.name
        return replace(judge_of(self.model), calibration=calibration or default)

    def procvlm(self) -> ProcVlm:
        """Return the judge that names the remaining actions, then a percentage."""
        return ProcVlm(self.model, points=POINTS, size=SIZE, max_tokens=160)

    def hop(self) -> Hop:
        """Return the judge of the change between two frames, three ways, averaged."""
        return Hop(self.model, mode="fused", points=POINTS, size=SIZE, max_tokens=16)

    def predict(self, form: str, judge: Judge, episodes: Sequence[Episode]) -> dict[str, Prediction]:
        """Return a judge's predictions for episodes, by id; without points for one it cannot judge."""
        known = self._known(form)
        for episode in (episode for episode in episodes if episode.id not in known):
            judgement = run_judge(judge, in_memory(episode.with_views([VIEW])), self.model).judgement
            curve = None if judgement is None else judgement.curve
            score = math.nan if judgement is None else judgement.success_score
            self._keep(form, episode.id, curve, score)
        known = self._known(form)
        return {episode.id: known[episode.id] for episode in episodes}

    def _keep(self, form: str, name: str, curve: Curve | None, score: float) -> None:
        line = {
            "form": form,
            "id": name,
            "times": [] if curve is None else curve.times.tolist(),
            "progress": [] if curve is None else curve.progress.tolist(),
            "score": score,
        }
        with self.judgements.open("a", encoding="utf-8") as file:
            # The break first: what follows a torn line is a line of its own.
            file.write("\n" + json.dumps(line))

    def _known(self, form: str) -> dict[str, Prediction]:
        lines = self.judgements.read_text(encoding="utf-8").splitlines() if self.judgements.is_file() else []
        rows = [json.loads(line) for line in lines if line.endswith("}")]  # a torn line does not
        return {
            row["id"]: Prediction(np.array(row["times"]), np.array(row["progress"]), float(row["score"]))
            for row in rows
            if row["form"] == form
        }


def with_goals(episodes: Sequence[Episode], folder: Path) -> list[Episode]:
    """Return the episodes whose scene has a success, each with that success's last frame as goal image."""
    from PIL import Image

    done = {episode.pair: episode for episode in episodes if episode.labels.success}
    found = []
    for number, episode in enumerate(e for e in episodes if e.pair in done):
        view = done[episode.pair].views[VIEW]
        path = folder / f"{number}.png"
        Image.fromarray(view.read([view.info().n_frames - 1])[0]).save(path)
        found.append(replace(episode, goals={VIEW: path}))
    return found


def text_judge_predictions(
    zero_shot: ZeroShot, episodes: Sequence[Episode], choose: Callable[[Sequence[Episode]], list[Episode]]
) -> dict[str, dict[str, Prediction]]:
    """Return the predictions of procvlm and hop for some of the episodes, by title and id."""
    with tempfile.TemporaryDirectory() as folder:
        chosen = choose(with_goals(episodes, Path(folder)))
        return {
            PROCVLM: zero_shot.predict(PROCVLM, zero_shot.procvlm(), chosen),
            HOP: zero_shot.predict(HOP, zero_shot.hop(), chosen),
        }
