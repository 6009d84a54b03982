"""Good inputs of every kind, made once: each holds good episodes and one that tries damage, the victim."""

from __future__ import annotations

import json
import shutil
import sqlite3
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import yaml
from PIL import Image

from tests.episodes.lerobot.datasets import dataset
from tests.episodes.readers.written import COLUMNS, SCHEMA, insert
from tests.hostile.tables import png
from tests.media import numbered, write_video

INSTRUCTION = "open the drawer"
CURVE = "time_s,progress,logp\n0.0,0.1,-3\n0.3,,-2\n0.6,0.8,-1\n"
STEPS = "Step,StepProgress,EpisodeSuccess\n1,0.1,1\n2,0.4,1\n3,0.9,1\n"


@dataclass(frozen=True)
class Source:
    """A good source.

    Attributes:
        make: Makes it in a folder.
        good: Ids of its good episodes.
        files: Files of the victim that tries damage, below the source.
        shared: Files of the source as a whole.
        path: What to give as SOURCE, below the folder.
        judges: Judges that can judge it.
    """

    make: Callable[[Path], None]
    good: tuple[str, ...]
    files: tuple[str, ...] = ()
    shared: tuple[str, ...] = ()
    path: str = "."
    judges: tuple[str, ...] = ("linear-time", "topreward")


def video(path: Path, n: int = 12) -> Path:
    """Write a small video of ``n`` frames."""
    return write_video(path, n, size=(48, 32), fps=10)


def _images(folder: Path, n: int = 6) -> None:
    folder.mkdir(parents=True)
    for number in range(n):
        Image.fromarray(numbered(number, 48, 32)).save(folder / f"frame_{number:03d}.png")


def _videos(root: Path) -> None:
    for number, name in enumerate("abc"):
        video(root / "open_the_drawer" / f"{name}.mp4", 10 + number)
        (root / "open_the_drawer" / f"{name}.curve.csv").write_text(CURVE)
    folder = root / "close_the_box"
    video(folder / "episode.mp4")
    (folder / "step_metrics.csv").write_text(STEPS)
    (folder / "task_instruction.json").write_text(json.dumps(["close the box", "shut it"]))
    (folder / "annotated_keyframes.json").write_text(
        json.dumps([{"anotation": "reach", "start_frame_id": 0, "end_frame_id": 5}])
    )
    Image.fromarray(numbered(3, 48, 32)).save(folder / "goal.png")


def _image_folders(root: Path) -> None:
    for name in ("open/a", "open/b", "shut/z"):
        _images(root / name)


def _manifests(root: Path) -> None:
    rows = []
    for number, name in enumerate("abz"):
        video(root / "v" / f"{name}.mp4", 10 + number)
        rows.append(
            {
                "id": name,
                "video": f"v/{name}.mp4",
                "instruction": INSTRUCTION,
                "policy": "p",
                "success": True,
                "success_mode": "ever",
                "pair": f"s{number}",
                "robot": "r",
                "dataset": "d",
                "fps": 25,
                "task": "drawer",
                "metadata": {"operator": "ann", "n": 1},
                "subgoals": ["grasp it", {"name": "pull it", "mode": "holds"}],
                "subgoal_labels": {"grasp it": True},
                "stages": [{"name": "reach", "start_second": 0, "end_second": 0.5}],
            }
        )
    (root / "list.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (root / "list.yaml").write_text(yaml.safe_dump({"defaults": {"robot": "r"}, "episodes": rows}))
    head = "id,video,instruction,policy,success,pair,fps,subgoals,subgoal_labels.grasp it,metadata.operator,stages\n"
    stages = '"[{""name"": ""reach"", ""start_second"": 0, ""end_second"": 0.5}]"'
    (root / "list.csv").write_text(
        head
        + "".join(
            f"{n},v/{n}.mp4,{INSTRUCTION},p,1,s{n},25,grasp it; pull it,1,ann,{stages}\n" for n in "abz"
        )
    )


def _v2(root: Path) -> None:
    extras = [
        {
            "sparse_subtask_names": ["a", "b"],
            "sparse_subtask_start_frames": [0, 2],
            "sparse_subtask_end_frames": [2, 5],
        }
    ] * 4
    root.rmdir()
    dataset(root, version="v2.1", lengths=(7, 5, 9, 6), extras=extras)


def _v3(root: Path) -> None:
    root.rmdir()
    dataset(root, version="v3.0", lengths=(7, 5, 9, 6), episodes_per_file=1)


def _eval(root: Path) -> None:
    for run, names in (("first", "01"), ("second", "0")):
        paths = [f"/gone/videos/push_0/eval_episode_{n}.mp4" for n in names]
        metrics = {
            "successes": [True] * len(names),
            "sum_rewards": [1.0] * len(names),
            "max_rewards": [1.0] * len(names),
            "video_paths": paths,
            "seeds": [7] * len(names),
        }
        info = {
            "per_task": [{"task_group": "push", "task_id": 0, "metrics": metrics}],
            "overall": {"pc_success": 50.0},
        }
        for name in names:
            video(root / run / "videos" / "push_0" / f"eval_episode_{name}.mp4")
        (root / run / "eval_info.json").write_text(json.dumps(info))


def _vla_eval(root: Path) -> None:
    connection = sqlite3.connect(root / "recording-abc.sqlite")
    connection.executescript(SCHEMA)
    connection.execute(
        "INSERT INTO eval_metadata VALUES ('abc-l', 'l', ?)", (json.dumps({"benchmark": "b:L"}),)
    )
    rows = []
    for number, status in enumerate(("success", "success", "fail")):
        stem = f"episodes/l/task0000_ep000{number}_{status}"
        video(root / f"{stem}.mp4", 10 + number)
        given: dict[str, object] = dict.fromkeys(COLUMNS)
        given |= {"sid": "s", "eid": f"e{number}", "eval_id": "abc-l", "task_name": "open_the_drawer"}
        given |= {
            "status": status,
            "context": json.dumps({"episode_idx": number}),
            "jsonl_path": f"{stem}.jsonl",
        }
        given |= {"metrics": json.dumps({"success": status == "success"}), "steps": 10, "elapsed_sec": 1.5}
        rows.append(given)
    insert(connection, rows)
    connection.commit()
    connection.close()


def _inspect_robots(root: Path) -> None:
    frames = root / "frames" / "stamp"
    frames.mkdir(parents=True)
    samples = []
    for scene in "abz":
        for step in range(6):
            np.save(frames / f"{scene}-e0_front_{step:06d}.npy", numbered(step, 48, 32))
        samples.append(
            {
                "scene_id": scene,
                "status": "success",
                "instruction": INSTRUCTION,
                "epochs": [{"success_at_end": 1.0}],
                "operator_judgements": ["yes"],
                "operator_notes": [None],
                "termination_reasons": ["success"],
            }
        )
    spec = {"task": "t", "policy": "p", "embodiment": "r", "created": "", "inspect_robots_version": "1"}
    spec_more = {"embodiment_info": {"control_hz": 10}, "seed": 1, "max_steps": 9}
    log = {
        "version": 1,
        "status": "success",
        "eval": {**spec, **spec_more},
        "results": {"total_scenes": 3, "total_trials": 3, "metrics": {}},
        "stats": {"duration_s": 1.0, "total_steps": 9, "frames_dir": "logs/frames/stamp"},
        "samples": samples,
    }
    (root / "log.json").write_text(json.dumps(log))


def _prm(root: Path) -> None:
    (root / "tasks").mkdir()
    (root / "tasks" / "demo.json").write_text(
        json.dumps({"flowers": "Insert the flowers.", "plates": "Set the plates."})
    )
    for place in ("flowers/pi0", "flowers/act", "plates/pi0"):
        for view in ("high", "left", "right"):
            video(root / "videos" / "demo" / place / f"episode0_{view}_0812.mp4")
        task, model = place.split("/")
        result = root / "results" / "run_1" / "demo" / model / task / "episode0"
        result.mkdir(parents=True)
        samples = [
            {
                "id": f"step-run-{i:04d}-goal-af_{5 * i + 5:06d}",
                "pred": "<score>10%</score>",
                "hop": 0.1,
                "progress": 0.1 * i,
            }
            for i in range(2)
        ]
        (result / "pred_vllm.json").write_text(json.dumps(samples))
    goal = root / "goals" / "demo" / "plates" / "goal.png"
    goal.parent.mkdir(parents=True)
    Image.fromarray(numbered(3, 48, 32)).save(goal)


def _curves(root: Path) -> None:
    head = "episode_id,time_s,progress,logp,instruction,task,policy,pair,success\n"
    rows = [f"{e},{t / 2},{t / 8},-1.5,push,push it,pi0,s{e},1\n" for e in "abz" for t in range(6)]
    (root / "curves.csv").write_text(head + "".join(rows))
    keys = head.strip().split(",")
    lines: list[dict[str, object]] = [dict(zip(keys, row.strip().split(","), strict=True)) for row in rows]
    for line in lines:
        line.update({name: float(str(line[name])) for name in ("time_s", "progress", "logp", "success")})
    (root / "curves.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    import pyarrow as pa
    import pyarrow.parquet as pq

    pq.write_table(pa.Table.from_pylist(lines), root / "curves.parquet")


def _hdf5(root: Path) -> None:
    import h5py

    env = json.dumps({"env_name": "PickPlaceCan", "env_kwargs": {"control_freq": 10, "robots": ["Panda"]}})
    for name in ("good", "zbad"):
        with h5py.File(root / f"{name}.hdf5", "w") as file:
            file.create_group("data").attrs["env_args"] = env
            for number in range(2):
                demo = file.create_group(f"data/demo_{number}")
                demo.attrs["ep_meta"] = json.dumps({"lang": "pick the can"})
                demo["obs/agentview_image"] = np.stack([numbered(i, 48, 32) for i in range(6)])
                demo["rewards"] = np.eye(1, 6, 5)[0]


def _act(root: Path) -> None:
    import h5py

    for name in ("ep_a", "ep_b", "ep_z"):
        with h5py.File(root / f"{name}.hdf5", "w") as file:
            file.attrs.update({"sim": False, "compress": False, "fps": 10, "instruction": "lift it"})
            for camera in ("cam_high", "cam_left_wrist"):
                file[f"observations/images/{camera}"] = np.stack([numbered(i, 48, 32) for i in range(5)])
            file["action"] = np.zeros((5, 14))


_Z2 = tuple(f"videos/chunk-000/observation.images.{camera}/episode_000003.mp4" for camera in ("top", "wrist"))
_Z3 = tuple(f"videos/observation.images.{camera}/chunk-000/file-003.mp4" for camera in ("top", "wrist"))
_LEROBOT = tuple(f"episode_00000{n}" for n in range(3))
_PLATES = "videos/demo/plates/pi0/episode0_"
SOURCES = {
    "videos": Source(
        _videos,
        tuple(f"open_the_drawer/{n}" for n in "abc"),
        tuple(
            f"close_the_box/{name}"
            for name in (
                "episode.mp4",
                "episode.mp4",
                "episode.mp4",
                "step_metrics.csv",
                "task_instruction.json",
                "annotated_keyframes.json",
                "goal.png",
            )
        ),
        judges=("linear-time", "topreward", "recorded"),
    ),
    "images": Source(
        _image_folders, ("open/a", "open/b"), tuple(f"shut/z/frame_00{n}.png" for n in (0, 3, 5))
    ),
    "jsonl": Source(_manifests, ("a", "b"), ("v/z.mp4",), ("list.jsonl",), "list.jsonl"),
    "csv": Source(_manifests, ("a", "b"), ("v/z.mp4",), ("list.csv",), "list.csv"),
    "yaml": Source(_manifests, ("a", "b"), ("v/z.mp4",), ("list.yaml",), "list.yaml"),
    "lerobot-v2": Source(
        _v2,
        _LEROBOT,
        (*_Z2, "data/chunk-000/episode_000003.parquet"),
        ("meta/info.json", "meta/episodes.jsonl", "meta/tasks.jsonl"),
    ),
    "lerobot-v3": Source(
        _v3,
        _LEROBOT,
        (*_Z3, "data/chunk-000/file-003.parquet", "meta/episodes/chunk-000/file-003.parquet"),
        ("meta/info.json", "meta/tasks.parquet", "meta/episodes/chunk-000/file-000.parquet"),
    ),
    "lerobot-eval": Source(
        _eval,
        tuple(f"first/videos/push_0/eval_episode_{n}" for n in "01"),
        ("second/videos/push_0/eval_episode_0.mp4", "second/eval_info.json"),
    ),
    "vla-eval": Source(
        _vla_eval,
        tuple(f"episodes/l/task0000_ep000{n}_success" for n in "01"),
        ("episodes/l/task0000_ep0002_fail.mp4",),
        ("recording-abc.sqlite",),
    ),
    "inspect-robots": Source(
        _inspect_robots,
        ("a-e0", "b-e0"),
        tuple(f"frames/stamp/z-e0_front_00000{n}.npy" for n in (0, 3, 5)),
        ("log.json",),
        "log.json",
    ),
    "prm": Source(
        _prm,
        ("demo/flowers/act/episode0", "demo/flowers/pi0/episode0"),
        (
            *(f"{_PLATES}{view}_0812.mp4" for view in ("high", "left")),
            "goals/demo/plates/goal.png",
            "results/run_1/demo/pi0/plates/episode0/pred_vllm.json",
        ),
        ("tasks/demo.json",),
        judges=("linear-time", "topreward", "recorded"),
    ),
    "curves-csv": Source(_curves, ("a", "b"), (), ("curves.csv",), "curves.csv", ("recorded",)),
    "curves-jsonl": Source(_curves, ("a", "b"), (), ("curves.jsonl",), "curves.jsonl", ("recorded",)),
    "curves-parquet": Source(_curves, ("a", "b"), (), ("curves.parquet",), "curves.parquet", ("recorded",)),
    "hdf5": Source(_hdf5, ("good/demo_0", "good/demo_1"), ("zbad.hdf5",)),
    "act": Source(_act, ("ep_a", "ep_b"), ("ep_z.hdf5",)),
}


def make_good(root: Path, names: Sequence[str]) -> None:
    """Make good sources, and images too large to decode, below ``root``."""
    for name in names:
        folder = root / name
        folder.mkdir(parents=True)
        SOURCES[name].make(folder)
    (root / "bombs").mkdir()
    (root / "bombs" / "filled.png").write_bytes(png(13_000, 13_000, filled=True))


def copy_good(good: Path, name: str, here: Path) -> Path:
    """Copy a good source to ``here/source`` and return the folder."""
    return Path(shutil.copytree(good / name, here / "source", symlinks=True))


SERVED = {
    "topreward": ["-J", "prefixes=2"],
    "stepeval": ["-J", "frames=2"],
    "gvl": ["-J", "frames=3"],
    "procvlm": ["-J", "points=2", "-J", "window=2"],
    "hop": ["-J", "points=3"],
}
"""Judges that ask a model, with options for few questions."""


def judge_command(source: Path, judge: str, run: Path) -> list[str]:
    """Return the arguments that judge a source.

    Args:
        source: The source.
        judge: A judge's name; ``topreward`` decodes frames and asks a scripted model, NAME@BACKEND asks the server.
        run: The run folder.
    """
    name, _, backend = judge.partition("@")
    model = {"topreward": ["--model", "mock/-1.5", "-E", "cache=false"]}.get(judge, [])
    if backend:
        subgoals = ["--subgoals", str(run.with_name("subgoals.yaml"))] if name == "stepeval" else []
        model = [
            *SERVED[name],
            *subgoals,
            "--model",
            f"{backend}/m",
            "-M",
            "base-url={server}",
            "-M",
            "timeout_s=20",
        ]
    return ["judge", str(source), "--judge", name, "-o", str(run), *model]
