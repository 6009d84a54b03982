"""Commands whose output is something else already: a file of a person, a dataset, a link, another kind of output."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from random import Random

from tests.hostile.case import Case, state_of

SLOW = ("sim",)
"""Commands that compute for long where they are not refused."""
IN_FOLDER = {
    "audit": ("report.html", "audit.json", "meta/info.json"),
    "bench": ("board.json", "rows/a.json", "videos/a.mp4"),
    "demo": ("report/index.html", "videos/a.mp4"),
    "tune": ("tuned.json", "notes.txt"),
    "train": ("config.json", "model.safetensors"),
    "report": ("index.html",),
    "plot": ("leaderboard.svg", "leaderboard.png"),
    "judge": ("episodes.parquet", "notes.txt"),
    "pairs": ("episodes.parquet", "notes.txt"),
    "merge": ("episodes.parquet", "notes.txt"),
}
"""What may lie in the folder of a command that writes one."""
HOW = ("text", "json", "labels.csv", "map-linear.json", "subgoals.yaml", "link", "broken link", "pipe")


def make_overwriting(rng: Random, here: Path, good: Path) -> Case:
    """Put something at the place that a command writes to; the command is refused, and what was there stays."""
    from tests.cli.command_walk import Inputs, commands

    found = [
        one
        for one in commands()
        if any(each.flag == "--out" for each in one.parameters) and one.name not in (*SLOW, "serve")
    ]
    command, made = rng.choice(found), good / "made"
    out_folder = here / "outputs"
    out_folder.mkdir()
    line = Inputs(made / "walk" / "toys", made / "walk" / "run", out_folder).line(command.words)
    place = Path(line[line.index("-o") + 1])
    if command.name != "pairs make" and command.words[0] in IN_FOLDER:
        place /= rng.choice(IN_FOLDER[command.words[0]])
    place.parent.mkdir(parents=True, exist_ok=True)
    how = rng.choice([one for one in HOW if not (one.startswith("map") and command.name == "calibrate")])
    person = here / "person.txt"
    person.write_text("a person's work")
    if how == "text":
        place.write_text("not of StepScore")
    elif how == "json":
        place.write_text('{"format": 1, "a": [1, 2]}')
    elif how == "link":
        place.symlink_to(person)
    elif how == "broken link":
        place.symlink_to(here / "nowhere")
    elif how == "pipe":
        os.mkfifo(place)
    else:
        shutil.copy(made / how, place)
    kept = {str(path): state_of(path) for path in (place, person)}
    return Case(f"{command.name} over {how} {place.name}", [line], codes=[2], kept=kept)
