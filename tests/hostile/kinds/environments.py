"""Hostile surroundings: environments, outputs, disks, folders, caches, and Ctrl+C at any time."""

from __future__ import annotations

import shutil
import sqlite3
from contextlib import closing
from pathlib import Path
from random import Random

from tests.hostile import mutations as m
from tests.hostile.case import KEY, Case
from tests.hostile.good_inputs import copy_good, judge_command
from tests.hostile.good_runs import RUNS

VARIABLES: tuple[tuple[str, tuple[str | None, ...]], ...] = (
    ("HOME", (None, "", "/nowhere", "/dev/null", "x" * 5000, "relative")),
    ("STEPSCORE_CACHE", (None, "", "/dev/null", "/proc/nope", "x" * 5000, "relative", "/dev/full", "\udcff")),
    ("XDG_CACHE_HOME", ("", "/dev/null", "relative", "/nowhere/at/all")),
    ("TMPDIR", ("/nowhere", "", "/dev/null")),
    ("COLUMNS", ("0", "-5", "abc", "9" * 30, "", "1", "2")),
    ("TERM", (None, "dumb", "\x1b[31m", "xterm-256color")),
    ("LANG", (None, "C", "xx_YY.nope")),
    ("LC_ALL", ("C", "POSIX", "tr_TR.UTF-8")),
    ("HTTP_PROXY", ("not a url", "http://u:p@127.0.0.1:9", "\x1b", "socks5://127.0.0.1:9")),
    ("ALL_PROXY", ("http://[", "ftp://x", "://")),
    ("SSL_CERT_FILE", ("/nowhere", "/dev/null", "/etc/passwd")),
    ("SSL_CERT_DIR", ("/nowhere",)),
    ("OPENAI_API_KEY", (f"{KEY}\nX-Odd: 1", f"{KEY}é", f"{KEY} x", f"\0{KEY}"[1:] + "\x7f", "", None, "x")),
    ("VLLM_API_KEY", (f"{KEY}\r\n\r\nGET /", f"{KEY}\u202e", "EMPTY", "")),
    ("VLLM_BASE_URL", ("", "not a url", "http://u:p@h", "file:///etc/passwd")),
    ("STEPSCORE_TRACEBACK", ("0", "")),
    ("_STEPSCORE_COMPLETE", ("nonsense", "complete_bash", "")),
    ("TZ", ("Nowhere/Nope", "")),
    ("PATH", ("", None)),
    ("FORCE_COLOR", ("1",)),
    ("HF_TOKEN", (KEY,)),
)


def _plain(rng: Random, here: Path, good: Path) -> list[list[str]]:
    """Return commands of all sorts on good inputs."""
    run, source = str(good / "made" / "runs" / "linear"), good / "jsonl" / "list.jsonl"
    every = [
        judge_command(source, "linear-time", here / "run"),
        ["judge", str(source), *RUNS["topreward"], "-o", str(here / "run")],
        [*judge_command(source, "topreward@openai-api", here / "run"), "--limit", "1"],
        [*judge_command(source, "topreward@vllm", here / "run"), "--limit", "1"],
        ["inspect", str(source)],
        ["inspect", str(source), "--json"],
        ["metrics", run],
        ["metrics", run, "--json"],
        ["compare", run],
        ["report", run, "-o", str(here / "page"), "--no-videos"],
        ["weights", run, "-o", str(here / "w.parquet"), "--method", "awr"],
        ["cache", "stats"],
        ["cache", "prune", "--all"],
        ["ls", rng.choice(("judges", "models", "readers", "metrics"))],
        ["--help"],
        ["--version"],
        ["judge", "--help"],
    ]
    return rng.sample(every, 2)


def make_environment(rng: Random, here: Path, good: Path) -> Case:
    """Set or remove variables of the environment, or run where the folder is gone."""
    chosen = rng.sample(VARIABLES, rng.choice((1, 1, 2)))
    env = {name: rng.choice(values) for name, values in chosen}
    if any("API_KEY" in name for name in env) or rng.random() < 0.2:
        source, backend = good / "jsonl" / "list.jsonl", "openai-api" if "OPENAI_API_KEY" in env else "vllm"
        commands = [[*judge_command(source, f"topreward@{backend}", here / "run"), "--limit", "1"]]
    else:
        commands = _plain(rng, here, good)
    gone = rng.random() < 0.1
    what = ", ".join(f"{name}={str(value)[:30]!r}" for name, value in env.items())
    return Case(f"{'a folder that is gone, ' * gone}{what}", commands, env=env, gone=gone, lies={})


def make_output(rng: Random, here: Path, good: Path) -> Case:
    """Give commands an output that takes ASCII alone, is full, or closed."""
    stdout = rng.choice(("ascii", "full", "closed"))
    source = copy_good(good, "videos", here)
    odd = source / "open_the_drawer" / "\u202e日本 \x1b[31m\udcff.mp4"
    shutil.copy(source / "open_the_drawer" / "a.mp4", odd)
    own = rng.choice(
        (
            ["inspect", str(source)],
            ["inspect", str(source), "--json"],
            judge_command(source, "linear-time", here / "run"),
        )
    )
    commands = [own, *_plain(rng, here, good)[:1]]
    return Case(f"output {stdout}", commands, stdout=stdout, lies={})


def make_disk(rng: Random, here: Path, good: Path) -> Case:
    """Write to a disk that is too small: the run, the page, the cache or the weights."""
    size = rng.choice((4096, 8192, 16384, 32768, 65536, 131072, 262144))
    disk, run, source = here / "disk", str(good / "made" / "runs" / "linear"), good / "jsonl" / "list.jsonl"
    commands = rng.choice(
        (
            [judge_command(source, "linear-time", disk / "run"), ["metrics", str(disk / "run")]],
            [judge_command(source, "topreward", disk / "run"), ["metrics", str(disk / "run")]],
            [["judge", str(source), *RUNS["topreward"], "-o", str(here / "run")], ["cache", "stats"]],
            [["report", run, "-o", str(disk / "page")]],
            [["export", run, "--to", "rerun", "-o", str(disk / "a.rrd")]],
            [
                ["weights", run, "-o", str(disk / "w.parquet"), "--method", "awr"],
                ["calibrate", run, "-o", str(disk / "map.json")],
            ],
            [
                [
                    "progress-labels",
                    str(source),
                    "--method",
                    "linear",
                    "-o",
                    str(disk / "l.parquet"),
                    "--assume-success",
                ]
            ],
        )
    )
    return Case(f"a disk of {size} bytes", commands, disk=size, env={"STEPSCORE_CACHE": str(disk / "cache")})


def make_read_only(rng: Random, here: Path, good: Path) -> Case:
    """Read and write in folders that may not be written."""
    name = rng.choice(tuple(RUNS))
    run = Path(shutil.copytree(good / "made" / "runs" / name, here / "run"))
    bare = rng.random() < 0.5
    for path in [*run.glob("*.parquet"), run / "tables.lock"] if bare else []:
        path.unlink(missing_ok=True)
    for path in run.iterdir():
        path.chmod(0o444)
    run.chmod(0o555)
    source = good / "jsonl" / "list.jsonl"
    commands = [
        ["metrics", str(run)],
        ["report", str(run), "-o", str(run / "page")],
        ["report", str(run), "-o", str(here / "page"), "--no-videos"],
        ["compare", str(run)],
        ["weights", str(run), "-o", str(run / "w.parquet"), "--method", "awr"],
        ["judge", str(source), *RUNS["linear"], "-o", str(run)],
        ["judge", str(source), *RUNS["linear"], "-o", str(run / "below")],
    ]
    env = {"STEPSCORE_CACHE": str(run / "cache")} if rng.random() < 0.3 else {}
    return Case(
        f"a run that is read-only{', without tables' * bare}",
        rng.sample(commands, 2),
        env=dict(env),
        unprivileged=True,
    )


def make_cache(rng: Random, here: Path, good: Path) -> Case:
    """Damage the cache's database, its values, or what it is."""
    cache = Path(shutil.copytree(good / "made" / "cache", here / "cache")) / "calls.sqlite"
    how = rng.random()
    if how < 0.4:
        cache.write_bytes(m.damage_bytes(cache.read_bytes(), rng))
        what = "damaged bytes"
    elif how < 0.6:
        what = m.replace_file(cache, rng)
    else:
        what = rng.choice(
            (
                "value = x'00'",
                "value = 'text'",
                "value = NULL",
                "created = NULL",
                "created = 'x'",
                "model = NULL",
                "model = 3",
                "value = zeroblob(1000000)",
                "drop",
            )
        )
        with closing(sqlite3.connect(cache)) as database:
            database.execute("DROP TABLE calls" if what == "drop" else f"UPDATE OR IGNORE calls SET {what}")
            database.commit()
    source = str(good / "jsonl" / "list.jsonl")
    commands = [
        ["cache", "stats", *rng.choice(([], ["--json"]))],
        ["cache", "prune", *rng.choice((["--all"], ["--before", "2099-01-01"], ["--model", "x"]))],
        ["cache", "export", str(here / "out.jsonl")],
        ["judge", source, *RUNS["topreward"], "-o", str(here / "run")],
        ["judge", source, *RUNS["topreward"], "-o", str(here / "run"), "--dry-run"],
    ]
    return Case(f"cache {what}", rng.sample(commands, 2), unprivileged=what == "unreadable")


def make_interrupt(rng: Random, here: Path, good: Path) -> Case:
    """Press Ctrl+C at some time while it judges, then resume."""
    copy_good(good, "videos", here)
    judge = rng.choice(("linear-time", "recorded", "topreward", "topreward@vllm", "stepeval@openai-api"))
    line = judge_command(here / "source", judge, here / "run")
    after = rng.choice((0.02, 0.05, 0.1, 0.2, 0.3, 0.5, 0.8)) * (0.5 + rng.random())
    case = Case(
        f"{judge}, Ctrl+C after {after:.2f} s", [line, line], f"videos.{judge}", stop_s=after, codes=[0, 130]
    )
    case.lies = {} if "@" in judge else None
    return case
