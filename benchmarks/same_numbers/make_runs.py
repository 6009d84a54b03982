"""Make the runs of one tree and print a digest of each table; started by ``benchmarks.same_numbers`` in that tree.

    python make_runs.py OUT CHECKPOINTS BUNDLED SOURCE...

It uses the public API and the command line only, so that it runs in any tree.
"""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import stepscore
from stepscore.episodes import Episode
from stepscore.judges import Judge
from stepscore.runs import CallOptions, RayEngine, Run, Shard, merge

TABLES = ("episodes", "judgements", "curves", "verdicts", "calls")
SAME_USAGE = ("episode_id", "calls", "images", "tokens_in", "tokens_out", "cost")
"""Columns of ``usage`` that no time, retry or worker changes."""

TIMES = ("cost:p50 s", "cost:p95 s")
"""Metrics of ``metrics --show all`` that are times."""

EMBEDDED: Mapping[str, Any] = {"model": "embedded"}
JUDGES: Mapping[str, tuple[str, Mapping[str, Any]]] = {
    "constant": ("constant", {}),
    "linear-time": ("linear-time", {}),
    "random-monotone": ("random-monotone", {}),
    "image-difference": ("image-difference", {}),
    "recorded": ("recorded", {}),
    "topreward": ("topreward", EMBEDDED),
    "topreward causal": ("topreward", {**EMBEDDED, "sampling": "causal"}),
    "gvl": ("gvl", {**EMBEDDED, "frames": 4, "max_tokens": 64}),
    "hop": ("hop", {**EMBEDDED, "points": 3}),
    "procvlm": ("procvlm", {**EMBEDDED, "points": 2, "max_tokens": 64}),
    "similarity": ("similarity", EMBEDDED),
    "stepeval": ("stepeval", EMBEDDED),
    "stepeval-statements": (
        "stepeval",
        {"model": "mock/-1.5", "answer": "statement", "strategy": "per-subgoal"},
    ),
    "stepeval-mock": ("stepeval", {"model": "mock/yes"}),
    "cascade": ("cascade", {"first": "constant", "second": "linear-time"}),
    "gvl-mock": ("gvl", {"model": "mock/Frame 1: 40%"}),
    "hop-mock": ("hop", {"model": "mock/<score>+25%</score>"}),
    "grm": ("grm", {"model": "mock/<score>+25%</score>", "profile": "grm", "prompt": "own"}),
    "progresslm": (
        "progresslm",
        {"model": "mock/<score>40%</score>", "profile": "progresslm", "prompt": "own"},
    ),
    "roboreward": ("roboreward", {"model": "mock/ANSWER: 4", "profile": "roboreward", "prompt": "own"}),
    "sole-r1": ("sole-r1", {"model": "mock/<answer>40</answer>", "profile": "sole-r1", "prompt": "own"}),
    "vlac": ("vlac", {"model": "mock/+25%", "profile": "vlac", "prompt": "own"}),
    "robometer": ("robometer", {"model": "mock/heads", "heads": True, "prompt": "own"}),
}


class Runs:
    """Makes runs below a folder, and keeps the digests of their tables.

    Args:
        out: The folder.
        checkpoints: Holds the tiny checkpoints ``hf`` and ``sarm``.
        demo: The bundled rollouts.
    """

    def __init__(self, out: Path, checkpoints: Path, demo: Path) -> None:
        self.out, self.checkpoints, self.demo = out, checkpoints, demo
        self.digests: dict[str, str] = {}

    def judge(self, name: str, judge: str, options: Mapping[str, Any], **how: Any) -> Run | None:
        """Judge episodes into a folder; an option that is refused is a digest of its message."""
        try:
            made = make_judge(judge, options)
            run = stepscore.score(
                how.pop("episodes"), made, self.out / name, call_options=CallOptions(cache=False), **how
            )
        except stepscore.errors.StepScoreError as error:
            self.digests[name] = f"refused: {type(error).__name__}: {str(error)[:120]}"
            return None
        self.note(name, run)
        return run

    def note(self, name: str, run: Run) -> None:
        """Keep the digests of a run's tables."""
        for table in TABLES:
            self.digests[f"{name}/{table}"] = _digest((run.path / f"{table}.parquet").read_bytes())
        usage = run.usage()
        rows = usage.select([column for column in SAME_USAGE if column in usage.column_names]).to_pylist()
        self.digests[f"{name}/usage"] = _digest(json.dumps(rows).encode())

    def command(self, name: str, *words: object) -> None:
        """Keep the digest of the JSON that a command prints, without the seconds that judging took."""
        line = [sys.executable, "-m", "stepscore", *map(str, words), "--json"]
        done = subprocess.run(line, capture_output=True, text=True, cwd=self.out, check=False)
        printed = json.loads(done.stdout or "[]")
        rows = [row for row in printed if row["metric"] not in TIMES]
        text = json.dumps(rows).replace(str(self.out), "RUNS")
        self.digests[name] = f"exit {done.returncode}, {len(rows)} rows, {_digest(text.encode())}"


def make_judge(judge: str, options: Mapping[str, Any]) -> Judge:
    """Return a judge; ``gate`` and ``heads`` are options of its model."""
    own = {name: value for name, value in options.items() if name not in ("gate", "heads")}
    of_model = {name: value for name, value in options.items() if name in ("gate", "heads")}
    if of_model:
        own["model"] = stepscore.get_model(own["model"], **of_model)
    return stepscore.get_judge(judge, **own)


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:16]


def every_judge(runs: Runs, source: str, episodes: Sequence[Episode], sarm: Path) -> None:
    """Judge a source by every judge that needs no server."""
    judges = dict(JUDGES)
    judges["sarm"] = ("sarm", {"model": f"sarm/{sarm}"})
    for name, (judge, options) in judges.items():
        if source != "bundled" and options.get("model") == "embedded":
            options = {**options, "gate": False}  # real scenes, of which it would say nothing
        runs.judge(f"{source} {name}", judge, options, episodes=episodes)


def every_way(runs: Runs, name: str, judge: str, options: Mapping[str, Any], episodes: list[Episode]) -> None:
    """Judge the same episodes with each engine, with shards, after a kill and after a stop."""
    how: dict[str, dict[str, Any]] = {
        "1 worker": {},
        "2 workers": {"workers": 2, "engine": "processes"},
        "3 workers": {"workers": 3, "engine": "processes"},
        "4 in flight": {"workers": 4, "engine": "local"},
        "ray": {"engine": RayEngine(workers=2)},
    }
    for way, chosen in how.items():
        runs.judge(f"{name} {way}", judge, options, episodes=episodes, **chosen)
    for index in (3, 1, 2):
        stepscore.score(
            episodes, make_judge(judge, options), runs.out / f"{name} shards",
            shard=Shard(index, 3), call_options=CallOptions(cache=False),
        )  # fmt: skip
    merge([runs.out / f"{name} shards"])
    runs.note(f"{name} shards", stepscore.open_run(runs.out / f"{name} shards"))
    runs.judge(f"{name} resumed", judge, options, episodes=episodes[: len(episodes) // 3])
    runs.judge(f"{name} resumed", judge, options, episodes=episodes)
    _kill_after(runs, f"{name} killed", judge, options, episodes)
    runs.judge(f"{name} killed", judge, options, episodes=episodes)


def _kill_after(
    runs: Runs, name: str, judge: str, options: Mapping[str, Any], episodes: list[Episode]
) -> None:
    """Kill a process that judges when its journal holds three episodes."""
    folder = runs.out / name
    line = [sys.executable, __file__, "--judge", str(folder), judge, json.dumps(dict(options))]
    child = subprocess.Popen([*line, str(runs.demo), str(len(episodes))])
    journal, end = folder / "journal.jsonl", time.monotonic() + 120
    while child.poll() is None and time.monotonic() < end:
        if journal.exists() and journal.read_bytes().count(b"\n") >= 3:
            child.kill()
            break
        time.sleep(0.002)
    child.wait()


def bundled(folder: Path) -> list[Episode]:
    """Return bundled rollouts with their subgoals and goal images."""
    found = stepscore.open_episodes(folder, subgoals=folder / "subgoals.yaml", goal="last-success")
    return list(found)[::4]


def main() -> None:
    if sys.argv[1] == "--judge":
        _, _, folder, judge, options, source, count = sys.argv
        episodes = bundled(Path(source))[: int(count)]
        made = make_judge(judge, json.loads(options))
        stepscore.score(episodes, made, folder, call_options=CallOptions(cache=False))
        return
    out, checkpoints, demo, *sources = (Path(word).resolve() for word in sys.argv[1:])
    runs = Runs(out, checkpoints, demo)
    everything = [("bundled", bundled(demo))]
    everything += [(source.name, list(stepscore.open_episodes(source))) for source in sources]
    for name, episodes in everything:
        every_judge(runs, name, episodes, checkpoints / "sarm")
    some = everything[0][1]
    every_way(runs, "embedded", "topreward", {**EMBEDDED, "prefixes": 4}, some)
    every_way(runs, "steps", "stepeval", EMBEDDED, some[:4])
    ways: dict[str, dict[str, Any]] = {
        "1": {},
        "2": {"workers": 2, "engine": "processes"},
        "ray": {"engine": RayEngine(2)},
    }
    for way, chosen in ways.items():
        model = stepscore.get_model(f"hf/{checkpoints / 'hf'}", batch=4, self_check=False)
        runs.judge(f"batch=4, {way}", "topreward", {"model": model, "prefixes": 3}, episodes=some, **chosen)
    runs.command("metrics", "metrics", out / "embedded 1 worker", "--show", "all")
    pair = (out / "bundled topreward", out / "bundled linear-time")
    runs.command("metrics of one judge", "metrics", pair[0], "--show", "all")
    runs.command("compare", "compare", *pair, "--by", "judge")
    print(json.dumps(runs.digests, indent=1))


if __name__ == "__main__":
    main()
