"""Datasets in a bucket of S3 and on the Hub whose store lies about its list, its sizes, one file or all of them."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

from tests.episodes.remote.lying_store import LIES
from tests.episodes.remote.stores import s3_environment
from tests.hostile import mutations as m
from tests.hostile.case import KEY, Case, state_of
from tests.hostile.good_inputs import SOURCES, copy_good, judge_command
from tests.hostile.kinds.servers import RAW_RESPONSES, STATUSES
from tests.hostile.kinds.sources import damage

ADDRESSES = {"s3": "s3://bucket/set", "hub": "ann/set"}
IN_STORES = ("lerobot-v2", "lerobot-v3")
"""Good sources that a store serves."""
ENVIRONMENT: dict[str, str | None] = {
    **s3_environment("{server}"),
    "AWS_SECRET_ACCESS_KEY": KEY,
    "HF_ENDPOINT": "{server}",
    "HF_TOKEN": KEY,
    "HF_HUB_OFFLINE": None,
}
ABOUT = ("list", "info.json", "tasks.parquet", "meta/episodes", "videos/", "data/", "/")
OF_LISTS = ("endless", "empty pages", "same token", "no token")
OF_FILES = ("whole", "other range")
SIZES: tuple[Any, ...] = (0, 1, -1, 10**9, 10**13, 2**63, 2**70, 1.5, None, "x", "", [])
NAMES = (
    *(
        "../../outside",
        "/etc/passwd",
        "meta/../../x",
        "..\\x",
        "a\0b",
        "",
        "/",
        "//",
        ".",
        "é" * 200,
        "x" * 5000,
    ),
    *("meta/info.json/x", ".files.json", ".pinned.json", "meta/info.json.ranges", "meta/x\n\x1b[31m.parquet"),
    *(
        "x_progress.parquet",
        "meta/episodes/chunk-000/file-004.parquet",
        "meta/episodes/chunk-000/file-000.json",
    ),
)
BODIES = ("", "null", "[]", "{}", "3", "<", "<a/>", "[" * 100_000, '{"sha": 3}', '[{"type": "file"}]', "\xff")


def undisturbed(rest: str, here: Path, good: Path) -> Case:
    """Return the case that judges the good episodes of a sound store; ``rest`` is STORE:SOURCE.JUDGE."""
    store, _, name = rest.partition(":")
    name, _, judge = name.rpartition(".")
    case = _case("nothing", store, name, judge, here, good)
    case.commands[0] += ["--episodes", ",".join(SOURCES[name].good)]
    return case


def make_remote(rng: Random, here: Path, good: Path) -> Case:
    """Make a store that lies; a lie about the file of one episode costs that episode alone."""
    store = rng.choice(tuple(ADDRESSES))
    name = rng.choice(IN_STORES)
    judge = rng.choice(SOURCES[name].judges)
    case = _case("", store, name, judge, here, good)
    assert case.store is not None
    how = rng.choice(("lie", "lie", "lie", "victim", "victim", "sizes", "names", "damage"))
    if how == "lie":
        about = rng.choice(ABOUT)
        lies = _lie(rng, (*LIES, *(OF_LISTS if about == "list" else OF_FILES)))
        case.store |= {"about": about, **lies}
        case.what = f"{store}, {about}: {lies['how']} {str(lies['value'])[:40]!r}"
        if lies["how"] == "silent" and rng.random() < 0.5:
            case.store["patient"] = True  # Ctrl-C alone ends the wait
            case.stop_s, case.codes = 3.0, [0, 1, 2, 130]
            case.what += ", Ctrl-C"
    elif how == "victim":
        victim = SOURCES[name].files[0]
        lies = _lie(rng, (*LIES, *OF_FILES))
        case.store |= {"about": victim, **lies}
        case.what, case.rest = f"{store}, {victim}: {lies['how']}", f"{store}:{name}.{judge}"
    elif how == "sizes":
        victim = rng.choice((*SOURCES[name].files, *SOURCES[name].shared))
        case.store["sizes"] = {victim: rng.choice(SIZES)}
        case.what = f"{store}, listed {case.store['sizes']}"
    elif how == "names":
        odd = rng.choice(NAMES)
        case.store["sizes"] = {odd: rng.choice((0, 10, 10**13))}
        case.what = f"{store}, listed {str(case.store['sizes'])[:60]}"
        case.kept = {str(path): state_of(path) for path in (here / "cache/outside", here / "cache/remote/x")}
    else:
        path = here / "source" / rng.choice((*SOURCES[name].files, *SOURCES[name].shared))
        case.what = f"{store}, {path.name}: {damage(path, rng)}"
    case.commands += [["inspect", ADDRESSES[store]]] if rng.random() < 0.3 and case.stop_s is None else []
    return case


def _case(what: str, store: str, name: str, judge: str, here: Path, good: Path) -> Case:
    folder = copy_good(good, name, here)
    line = judge_command(Path("SOURCE"), judge, here / "run")
    line[line.index("SOURCE")] = ADDRESSES[store]  # a Path would lose a slash
    return Case(what, [line], env=dict(ENVIRONMENT), store={"folder": str(folder)})


def _lie(rng: Random, choices: tuple[str, ...]) -> dict[str, Any]:
    how = rng.choice(choices)
    value: Any = None
    if how == "status":
        value = rng.choice(STATUSES)
    elif how == "body":
        value = rng.choice((*BODIES, rng.choice(m.ODD_TEXTS)))
    elif how == "raw":
        value = rng.choice(RAW_RESPONSES)
    return {"how": how, "value": value}
