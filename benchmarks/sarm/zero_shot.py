"""The embedded judge on the same films, without training: growing prefixes, and its two answers in words."""

from __future__ import annotations

import json
import math
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from embedded.asked import asked
from embedded.evaluate import judge_of
from embedded.scoring import held

from benchmarks.sarm.judgements import Said
from stepscore.episodes import Episode
from stepscore.judges import Judge
from stepscore.judges.hop import Hop
from stepscore.judges.procvlm import ProcVlm
from stepscore.judges.topreward import TopReward
from stepscore.models.embedded.model import CALIBRATION, EmbeddedModel
from stepscore.training.embedded.tasks import SIZE, VIEW
from stepscore.types import Curve

TOPREWARD, PROCVLM, HOP = "embedded judge, topreward", "embedded judge, procvlm", "embedded judge, hop"
POINTS = 8
"""Moments of an episode that procvlm and hop judge."""


@dataclass(frozen=True)
class ZeroShot:
    """The embedded judge, and what it said so far.

    Attributes:
        model: The judge's model, without its gate.
        said: File of what was said, a line each; nothing in it is asked again.
    """

    model: EmbeddedModel
    said: Path

    def topreward(self, calibration: Path | None = None) -> TopReward:
        """As the package uses it: from two frames on, and calibrated.

        Args:
            calibration: The map; by default the one that lies beside the weights.
        """
        beside = Path(self.model.checkpoint) / CALIBRATION.name
        return replace(judge_of(self.model), calibration=calibration or beside)

    def procvlm(self) -> ProcVlm:
        """Remaining actions, then a percentage."""
        return ProcVlm(self.model, points=POINTS, size=SIZE, max_tokens=160)

    def hop(self) -> Hop:
        """The change between two moments, three ways, averaged."""
        return Hop(self.model, mode="fused", points=POINTS, size=SIZE, max_tokens=16)

    def ask(self, form: str, judge: Judge, episodes: Sequence[Episode]) -> dict[str, Said]:
        """What a judge says of episodes, by id; of one it cannot judge, nothing."""
        known = self._known(form)
        for episode in (episode for episode in episodes if episode.id not in known):
            judgement = asked(judge, held(episode.with_views([VIEW])), self.model).judgement
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
        with self.said.open("a", encoding="utf-8") as file:
            # The break first: what follows a torn line is a line of its own.
            file.write("\n" + json.dumps(line))

    def _known(self, form: str) -> dict[str, Said]:
        lines = self.said.read_text(encoding="utf-8").splitlines() if self.said.is_file() else []
        found = [json.loads(line) for line in lines if line.endswith("}")]  # a torn line does not
        return {
            row["id"]: Said(np.array(row["times"]), np.array(row["progress"]), float(row["score"]))
            for row in found
            if row["form"] == form
        }


def with_goals(episodes: Sequence[Episode], folder: Path) -> list[Episode]:
    """The episodes in whose scene somebody succeeds, each with the last frame of that success as goal image."""
    from PIL import Image

    done = {episode.pair: episode for episode in episodes if episode.labels.success}
    found = []
    for number, episode in enumerate(e for e in episodes if e.pair in done):
        view = done[episode.pair].views[VIEW]
        path = folder / f"{number}.png"
        Image.fromarray(view.read([view.info().n_frames - 1])[0]).save(path)
        found.append(replace(episode, goals={VIEW: path}))
    return found


def in_words(
    zero_shot: ZeroShot, episodes: Sequence[Episode], choose: Callable[[Sequence[Episode]], list[Episode]]
) -> dict[str, dict[str, Said]]:
    """What procvlm and hop say of some of the episodes, by form and id."""
    with tempfile.TemporaryDirectory() as folder:
        chosen = choose(with_goals(episodes, Path(folder)))
        return {
            PROCVLM: zero_shot.ask(PROCVLM, zero_shot.procvlm(), chosen),
            HOP: zero_shot.ask(HOP, zero_shot.hop(), chosen),
        }
