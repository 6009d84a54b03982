"""A small study to show on the page: three policies, three tasks, two views, two judges and a baseline."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

import stepscore
from stepscore.episodes import Episode, open_episodes
from stepscore.judges import Ask, SingleModelJudge, get_judge
from stepscore.models import Generate
from stepscore.models.media import FrameRef
from stepscore.models.mock import MockModel
from stepscore.models.prompts import Prompt, Turn
from stepscore.runs import CallOptions
from stepscore.testing import write_toy_rollouts
from stepscore.types import Curve, FloatArray, Judgement, Verdict
from tests.media import decode_all, write_video

HOSTILE = "<script>window.hacked=1</script><img src=x onerror=window.hacked=1> \"'`&amp; "
RIGHT_TO_LEFT = "ادفع المكعب إلى الهدف \u202edlrow"
GOALS = {"reach the block": 0.1, "push it half way": 0.5, "block rests on the goal": 1.0}
WHY = {
    "yes": "It does so from the frame named on.",
    "no": "It never gets that far.",
    "unknown": "The gripper hides it.",
}


def write_rollouts(folder: Path, scenes: int = 3) -> Path:
    """Toy rollouts with subgoals, stages, a second view, and one episode whose texts are hostile."""
    write_toy_rollouts(folder, scenes=scenes)
    manifest = folder / "manifest.jsonl"
    lines = [json.loads(line) for line in manifest.read_text(encoding="utf-8").splitlines()]
    for number, line in enumerate(lines):
        truth = _recorded(folder / f"{line['id']}.curve.csv")
        line["views"] = {"front": line.pop("video"), "top": str(_top_view(folder, line["id"]))}
        line["subgoals"] = [
            {"name": name, "criterion": f"progress of {level:.0%}"} for name, level in GOALS.items()
        ]
        line["subgoal_labels"] = {name: bool(truth[1].max() >= level) for name, level in GOALS.items()}
        line["stages"] = [
            {"name": "approach", "start_second": 0.0, "end_second": 1.0},
            {"name": "push", "start_second": 1.0, "end_second": 4.0},
        ]
        if number == 1:
            line["instruction"] = HOSTILE + RIGHT_TO_LEFT + "x" * 10_000
    manifest.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    return folder


def write_runs(folder: Path, scenes: int = 3) -> list[Path]:
    """Run folders of two judges that look and one that does not, over the same episodes."""
    episodes = open_episodes(write_rollouts(folder / "rollouts", scenes))
    call_options = CallOptions(cache=False)
    judges = {
        "watcher": Watcher(),
        "second-eye": Watcher("second-eye", noise=0.08),
        "linear-time": get_judge("linear-time"),
    }
    for name, judge in judges.items():
        stepscore.score(episodes, judge, out=folder / name, call_options=call_options)
    return [folder / name for name in judges]


@dataclass
class Watcher(SingleModelJudge):
    """Repeats the recorded curve with noise, says when each subgoal came true, and asks a model one question."""

    name: str = "watcher"
    noise: float = 0.0
    version: int = 1
    model: MockModel = field(
        default_factory=lambda: MockModel("vision", script=lambda _: "The block moves.\n<b>yes</b>")
    )

    def options(self) -> Mapping[str, object]:
        return {"noise": self.noise}

    async def judge(self, episode: Episode, ask: Ask) -> Judgement:
        times, truth = _recorded(Path(episode.views["front"].location()).with_suffix(".curve.csv"))
        rng = np.random.default_rng(list(f"{self.name} {episode.id}".encode()))
        raw = truth + rng.normal(0.0, self.noise, len(truth)) if self.noise else truth
        progress: FloatArray = np.round(np.clip(raw, 0.0, 1.0), 4).astype(np.float64)
        stills = tuple(FrameRef("front", i, 64) for i in (0, 20, 40))
        turn = Turn("user", (f"Task: {episode.instruction[:200]}\nDoes the block move?", *stills))
        await ask(Generate(Prompt((turn,))))
        verdicts = tuple(_verdict(name, level, times, progress, rng) for name, level in GOALS.items())
        score = float(np.clip(progress[-3:].mean(), 0.01, 0.99))
        return Judgement(Curve(times, progress, {"raw": raw * 3 - 1}), verdicts, score)


def _verdict(
    name: str, level: float, times: FloatArray, progress: FloatArray, rng: np.random.Generator
) -> Verdict:
    if rng.uniform() < 0.04:
        return Verdict(name, "unknown", why=WHY["unknown"])
    at = np.flatnonzero(progress >= level)
    if not len(at):
        return Verdict(name, "no", 0.1, math.nan, WHY["no"])
    return Verdict(name, "yes", 0.93, float(times[at[0]]), WHY["yes"])


def _recorded(path: Path) -> tuple[FloatArray, FloatArray]:
    table = np.loadtxt(path, delimiter=",", skiprows=1)
    return table[:, 0], table[:, 1]


def _top_view(folder: Path, name: str) -> Path:
    """The front view as if from above: darker and upside down."""
    frames = [(frame[::-1] // 3 * 2).astype(np.uint8) for frame in decode_all(folder / f"{name}.mp4")]
    path = write_video(folder / f"{name}.top.mp4", frames=frames, size=(96, 96), fps=12)
    return path.relative_to(folder)
