"""Whether the figures of the judge's card hold on both of its runtimes: the same verdicts in NumPy and in torch.

    python -m benchmarks.embedded.measures.runtimes [DATASET ...]

Every episode is judged by topreward and by stepeval, once as ``--model embedded`` and once as the same folder in
torch, under the same maps. Prints how many verdicts differ, and the largest difference of the margins; fails where
one differs.
Without datasets: the bundled rollouts.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import numpy as np

from stepscore.cli.judging.demo import ROLLOUTS, demo_judges
from stepscore.episodes import Episodes, open_episodes
from stepscore.judges import Judge, get_judge
from stepscore.judges.topreward import TopReward
from stepscore.models import get_model
from stepscore.models.embedded.model import FOLDER, trained_side
from stepscore.runs import Run, score


def torch_judge(judge: Judge) -> Judge:
    """Return the same judge on torch, with the map of the other: weights and options are the same."""
    model = get_model(f"hf/{FOLDER}", max_pixels=trained_side(FOLDER) ** 2)
    if not isinstance(judge, TopReward):
        return get_judge(judge.name, model=model, strategy="per-subgoal", answer="statement")
    torch = get_judge(judge.name, model=model, min_first=judge.min_first)
    object.__setattr__(torch, "fitted", judge.fitted)
    return torch


def outcomes(run: Run) -> dict[tuple[str, str], float | str | None]:
    """Return every verdict: success of each episode by its probability, and each subgoal."""
    found: dict[tuple[str, str], float | str | None] = {}
    for row in run.judgements().to_pylist():
        probability = row["success_probability"]
        found[row["episode_id"], "success"] = None if probability is None else float(probability >= 0.5)
    for row in run.verdicts().to_pylist():
        found[row["episode_id"], row["subgoal"]] = row["answer"]
    return found


def margins(run: Run) -> np.ndarray:
    """Return the margins of all points, in the order of the table."""
    table = run.curves()
    values = table["margin"].to_numpy() if "margin" in table.column_names else np.empty(0)
    return np.asarray(values, dtype=np.float64)


def compare(episodes: Episodes, folder: Path) -> int:
    """Print one line per judge; return how many verdicts differ."""
    differ = 0
    for judge in demo_judges():
        runs = [
            score(episodes, each, folder / f"{judge.name}-{name}")
            for name, each in (("numpy", judge), ("torch", torch_judge(judge)))
        ]
        ours, theirs = map(outcomes, runs)
        known = [
            key for key in ours if ours[key] is not None
        ]  # torch has no gate: what ours refuses is not compared
        changed = sum(ours[key] != theirs.get(key) for key in known)
        line = f"{judge.name}: {changed} of {len(known)} verdicts differ"
        if judge.name == "topreward":
            a, b = map(margins, runs)
            refused = sum(outcome is None for outcome in ours.values())
            line += f", margins by at most {np.nanmax(np.abs(a - b)):.2g} nats; {refused} refused by the gate"
        print(line, flush=True)
        differ += changed
    return differ


def main() -> None:
    differ = 0
    for root in [Path(name) for name in sys.argv[1:]] or [ROLLOUTS]:
        episodes = open_episodes(root, labels=root / "labels.parquet", subgoals=root / "subgoals.yaml")
        print(f"{len(episodes)} episodes", flush=True)
        with tempfile.TemporaryDirectory() as folder:
            differ += compare(episodes, Path(folder))
    if differ:
        sys.exit(f"{differ} verdicts differ between the runtimes.")


if __name__ == "__main__":
    main()
