"""Hostile sources: every reader's files, one episode of several damaged, or the file that lists them."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable
from pathlib import Path
from random import Random

import numpy as np

from tests.hostile import mutations as m
from tests.hostile.case import Case
from tests.hostile.good_inputs import SOURCES, copy_good, judge_command, video
from tests.hostile.tables import damage_boxes, damage_parquet, gif, png

BAD_PATHS = (
    "/dev/zero",
    "/dev/null",
    "/etc/passwd",
    "nowhere.mp4",
    "v",
    "x" * 300 + ".mp4",
    "x/" * 3000 + "y.mp4",
    "pipe.mp4",
)
"""Paths of videos that name a file, though none that can be used."""

PLAYLISTS = (
    b"#EXTM3U\n#EXT-X-MEDIA-SEQUENCE:0\n#EXTINF:1.0,\nfile:///etc/passwd\n#EXT-X-ENDLIST\n",
    b"#EXTM3U\n#EXTINF:1.0,\nhttp://127.0.0.1:9/x.ts\n#EXT-X-ENDLIST\n",
    b"ffconcat version 1.0\nfile /etc/passwd\n",
    b"ffconcat version 1.0\nfile /dev/zero\nfile /dev/zero\n",
    b"v=0\no=- 0 0 IN IP4 127.0.0.1\ns=x\nc=IN IP4 127.0.0.1\nt=0 0\nm=video 9 RTP/AVP 96\n",
)
"""Texts that a demuxer may take for a list of other files or addresses."""


def damage_video(path: Path, rng: Random) -> str:
    """Make a video one that lies about itself, or none."""
    how = rng.choice(("boxes", "boxes", "boxes", "gif", "png", "playlist", "text", "bytes"))
    if how == "boxes":
        path.write_bytes(damage_boxes(path.read_bytes(), rng))
    elif how == "gif":
        path.write_bytes(gif(*rng.choice(((65535, 65535), (16000, 16000), (0, 0), (1, 65535), (8000, 8000)))))
    elif how == "png":
        path.write_bytes(png(*rng.choice(((50000, 50000), (2**31 - 1, 2**31 - 1), (0, 0), (13000, 13000)))))
    elif how == "playlist":
        path.write_bytes(rng.choice(PLAYLISTS))
    elif how == "text":
        path.write_text(rng.choice(("", "not a video", "{}", "<svg/>", "RIFF\0\0\0\0AVI ", "\x1aE\xdf\xa3")))
    else:
        path.write_bytes(m.damage_bytes(path.read_bytes(), rng))
    return how


def damage_image(path: Path, rng: Random) -> str:
    """Make an image another size, another format, a bomb or none."""
    how = rng.choice(("claims", "bomb", "gif", "size", "bytes", "text"))
    if how == "claims":
        path.write_bytes(png(*rng.choice(((50000, 50000), (2**31 - 1, 1), (0, 5), (65535, 65535)))))
    elif how == "bomb":
        path.write_bytes(
            (
                path.parents[next(i for i, p in enumerate(path.parents) if p.name == "here")].parent.parent
                / "good"
                / "bombs"
                / "filled.png"
            ).read_bytes()
        )
    elif how == "gif":
        path.write_bytes(gif(16000, 16000))
    elif how == "size":
        path.write_bytes(png(rng.choice((1, 16, 3000)), rng.choice((1, 16, 3000)), filled=True))
    elif how == "bytes":
        path.write_bytes(m.damage_bytes(path.read_bytes(), rng))
    else:
        path.write_text("not an image")
    return how


SCHEMAS = (
    "CREATE VIEW episode_results AS WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) "
    "SELECT x AS sid, x AS jsonl_path FROM n",
    "CREATE TABLE episode_results (sid, jsonl_path AS (hex(zeroblob(500000000))))",
    "CREATE TABLE episode_results (sid)",
    "CREATE TABLE episode_results (jsonl_path TEXT)",
    "CREATE VIRTUAL TABLE episode_results USING fts5(sid, jsonl_path)",
)
"""Other things called as the table that is read."""


def damage_sqlite(path: Path, rng: Random) -> str:
    """Put odd values in the rows of a SQLite file, something else in a table's place, or damage its bytes."""
    how = rng.choice(("cell", "cell", "cell", "schema", "rows", "bytes"))
    if how == "bytes":
        path.write_bytes(m.damage_bytes(path.read_bytes(), rng))
        return how
    connection = sqlite3.connect(path)
    if how == "cell":
        columns = (
            "eval_id",
            "task_name",
            "episode_id",
            "status",
            "metrics",
            "steps",
            "context",
            "jsonl_path",
        )
        column = rng.choice(columns)
        value = rng.choice(
            (*(t.encode("utf-8", "replace") for t in m.ODD_TEXTS), -1, 2**63 - 1, 1e308, None, b"\xff")
        )
        kept = value.decode("utf-8", "replace") if isinstance(value, bytes) and rng.random() < 0.7 else value
        connection.execute(f"UPDATE episode_results SET {column} = ? WHERE eid = 'e2'", (kept,))
        how = f"{column} = {str(value)[:30]}"
    elif how == "rows":
        connection.execute("DELETE FROM eval_metadata")
        connection.executemany(
            "INSERT INTO episode_results (sid, eid, eval_id, jsonl_path) VALUES ('x', ?, 'y', '../../etc/passwd')",
            [(f"r{number}",) for number in range(20_000)],
        )
    else:
        connection.execute("DROP TABLE episode_results")
        connection.execute(rng.choice(SCHEMAS))
    connection.commit()
    connection.close()
    return how


def damage_array(path: Path, rng: Random) -> str:
    """Make a frame an array of another kind or size, one that lies, a pickle, or none."""
    how = rng.choice(("array", "array", "header", "bytes", "text"))
    if how == "array":
        shape, kind = rng.choice(
            (((0, 0, 3), "u1"), ((5, 5), "u1"), ((4, 4, 3), "f8"), ((9, 9, 3), "u1"), ((2, 2, 3), "O"))
        )
        np.save(path, np.zeros(shape, kind), allow_pickle=True)
        how = f"array {shape} {kind}"
    elif how == "header":
        lie = rng.choice((b"(99999, 99999, 3)", b"(-1, 48, 3)", b"(32, 48, 3, 1, 1)", b"(" * 40 + b")" * 40))
        path.write_bytes(path.read_bytes().replace(b"(32, 48, 3)", lie))
    elif how == "bytes":
        path.write_bytes(m.damage_bytes(path.read_bytes(), rng))
    else:
        path.write_text("not an array")
    return how


STRUCTURED: dict[str, Callable[[Path, Random], str]] = {
    ".mp4": damage_video,
    ".png": damage_image,
    ".json": m.damage_json,
    ".jsonl": m.damage_jsonl,
    ".csv": m.damage_csv,
    ".yaml": m.damage_yaml,
    ".parquet": damage_parquet,
    ".sqlite": damage_sqlite,
    ".npy": damage_array,
}


def damage(path: Path, rng: Random, suffix: str | None = None) -> str:
    """Damage a file in a way that fits its format, which its own suffix says unless ``suffix`` does."""
    return m.damage_file(path, rng, STRUCTURED.get(path.suffix if suffix is None else suffix))


def source_case(name: str, rng: Random, here: Path, what: str, *, rest: bool) -> Case:
    """Return the case of a damaged source: a judge over it, and often a look at it."""
    source = SOURCES[name]
    judge = rng.choice(source.judges)
    place = here / "source" / source.path
    commands = [judge_command(place, judge, here / "run")]
    commands += [["inspect", str(place), *rng.choice(([], ["--json"]))]] if rng.random() < 0.5 else []
    commands += [[*judge_command(place, judge, here / "other"), "--dry-run"]] if rng.random() < 0.1 else []
    if rng.random() < 0.1:
        commands.append(
            [
                "progress-labels",
                str(place),
                "--method",
                "linear",
                "-o",
                str(here / "l.parquet"),
                "--assume-success",
            ]
        )
    return Case(what, commands, f"{name}.{judge}" if rest else "", unprivileged=what.endswith("unreadable"))


def make_source(name: str) -> Callable[[Random, Path, Path], Case]:
    """Return the maker of hostile sources of a reader: the victim's own files, or those of the source."""
    source = SOURCES[name]

    def make(rng: Random, here: Path, good: Path) -> Case:
        root = copy_good(good, name, here)
        one = bool(source.files) and (not source.shared or rng.random() < 0.6)
        path = root / rng.choice(source.files if one else source.shared)
        what = damage(path, rng)
        # A file of a list that cannot be read at all says of no episode whether it was there, and one that states
        # an episode twice does not say which row is right.
        readable = "meta" not in path.parts or ("column " in what and not what.endswith(": rows"))
        return source_case(name, rng, here, what, rest=one and readable)

    return make


def make_manifest(name: str) -> Callable[[Random, Path, Path], Case]:
    """Return the maker of hostile manifests: their text, or one entry that names what is no video."""

    def make(rng: Random, here: Path, good: Path) -> Case:
        root = copy_good(good, name, here)
        if rng.random() < 0.6:
            return source_case(name, rng, here, damage(root / SOURCES[name].path, rng), rest=False)
        bad = rng.choice(BAD_PATHS)
        if bad == "pipe.mp4":
            m.replace_file(root / bad, rng, ("pipe",))
        path = root / SOURCES[name].path
        path.write_text(path.read_text().replace("v/z.mp4", bad))
        return source_case(name, rng, here, f"video: {bad[:40]}", rest=True)

    return make


def make_lerobot_rows(rng: Random, here: Path, good: Path) -> Case:
    """Make a LeRobot dataset of which one episode's row in meta/ is odd, in either version."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    name = rng.choice(("lerobot-v2", "lerobot-v3"))
    root = copy_good(good, name, here)
    if name == "lerobot-v2":
        path = root / "meta" / "episodes.jsonl"
        lines = path.read_text().splitlines()
        value, what = m.odd_json(json.loads(lines[3]), rng, root=False, keep=("episode_index",))
        path.write_text("\n".join([*lines[:3], m.dump_json(value)]) + "\n")
    else:
        path = root / "meta" / "episodes" / "chunk-000" / "file-003.parquet"
        rows = pq.read_table(path, use_threads=False)
        column = rng.choice(
            [c for c in rows.column_names if c != "episode_index" and not c.startswith("stats/")]
        )
        values, kind = rows[column].to_pylist(), rows[column].type
        odd = (
            (None, -1, 2**62)
            if pa.types.is_integer(kind)
            else (None, float("nan"), float("inf"), -1.0, 1e300)
        )
        values[-1] = rng.choice(odd) if pa.types.is_integer(kind) or pa.types.is_floating(kind) else None
        what = f"{column} = {values[-1]}"
        pq.write_table(rows.set_column(rows.column_names.index(column), column, pa.array(values, kind)), path)
    # A line that no parser may read is damage of the whole list: nothing says which episode it was.
    return source_case(name, rng, here, f"row of the victim: {what}", rest="deep-" not in what)


def make_single(rng: Random, here: Path, good: Path) -> Case:
    """Make one file or folder the whole source: a damaged video, or something no reader expects."""
    source = here / rng.choice(
        ("one.mp4", "one.gif", "one.mkv", "one.hdf5", "one.csv", "one.json", "one", "manifest.yaml")
    )
    how = rng.random()
    if how < 0.6:
        video(source.with_suffix(".mp4")).rename(source)
        what = damage_video(source, rng)
    elif how < 0.8:
        source.write_bytes(b"x")
        what = m.replace_file(source, rng)
    else:
        what, source = f"source {rng.choice(BAD_PATHS)[:50]!r}", Path(rng.choice(BAD_PATHS))
    arguments = rng.choice(
        (
            judge_command(source, "linear-time", here / "run"),
            ["inspect", str(source)],
            ["inspect", str(source), "--json"],
        )
    )
    return Case(f"{source.name[:40]}: {what}", [arguments], unprivileged=what.endswith("unreadable"))


def make_names(rng: Random, here: Path, good: Path) -> Case:
    """Make a folder of videos with names that break out of lines, markup, paths and encodings."""
    root = copy_good(good, "videos", here)
    odd = rng.choice(
        (
            b"line\nbreak",
            b"\xff\xfe not utf-8",
            b"[bold]x[nope",
            b"\x1b[31m",
            b"-o",
            b" ",
            b"a" * 250,
            "é\u0301\u202e".encode(),
            b"%s{0}",
            b"..x",
            b"'\"`$(x)",
        )
    )
    folder = bytes(root) + b"/close_the_box/"
    place = folder + odd + b".mp4" if len(odd) < 240 else folder + odd
    (root / "close_the_box" / "episode.mp4").rename(place.decode("utf-8", "surrogateescape"))
    return source_case("videos", rng, here, f"a video called {odd[:20]!r}", rest=True)
