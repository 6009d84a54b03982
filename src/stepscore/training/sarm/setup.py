"""What a training run of SARM starts from: episodes with labels, what the encoder sees in them, and a network."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path

import numpy as np
import torch

from stepscore.episodes import Episode
from stepscore.errors import OptionError, SourceError
from stepscore.models.sarm import (
    Float32,
    FrameEncoder,
    Procedure,
    SarmConfig,
    SarmNetwork,
    SarmShape,
    Window,
    get_encoder,
)
from stepscore.training.sarm.batches import nonsense
from stepscore.training.sarm.config import SarmJobConfig
from stepscore.training.sarm.dataset import (
    SarmFilm,
    Source,
    film_state,
    progress_kind,
    read_labelled,
    see_episode,
    sparse_labelled,
)
from stepscore.training.sarm.targets import WHOLE, Labelled, Targets, head_targets, whole_targets
from stepscore.training.sarm.training import SarmTraining, TrainConfig, set_scaling

Say = Callable[[str], None]
Procedures = dict[str, dict[str, Procedure]]


def set_up(job: SarmJobConfig, say: Say) -> tuple[SarmTraining, list[SarmFilm]]:
    """The training run of a job, and the films to check it on."""
    recipe = TrainConfig(**job.recipe)
    learned, checked, progress = _labelled(job, say)
    views = job.views or tuple(learned[0].episode.views)
    encoder = get_encoder(job.encoder, job.device)
    procedures, targets = _targets(job, learned)
    _, held_targets = _targets(job, checked, procedures) if checked else ({}, {})
    films = _films(job, learned, targets, views, encoder, say)
    held_out = _films(job, checked, held_targets, views, encoder, say, copies=0)
    senseless = nonsense(recipe.seed)
    texts: dict[str, list[str]] = {}
    for one in learned:
        said = texts.setdefault(one.task, [])
        if one.episode.instruction not in said:
            said.append(one.episode.instruction)
    wanted = dict.fromkeys([*senseless, *(one.episode.instruction for one in [*learned, *checked])])
    read: dict[str, Float32] = dict(zip(wanted, encoder.read(list(wanted)), strict=True))
    window = Window(job.frames, job.gap_s or usual_gap(learned, job.frames), job.causal)
    shape = SarmShape(
        features=films[0].features[0].shape[-1],
        text=len(next(iter(read.values()))),
        views=len(views),
        state=films[0].state.shape[1],
        stages={head: max(len(p.stages) for p in tasks.values()) for head, tasks in procedures.items()},
        slots=window.slots,
        causal=job.causal,
        width=job.width,
        layers=job.layers,
        attention_heads=job.attention_heads,
    )
    config = SarmConfig(
        mode=job.mode,
        window=window,
        views=views,
        state=job.state,
        encoder=dict(encoder.describe()),
        sizes=asdict(shape),
        procedures=procedures,
        tasks={text: task for task, said in texts.items() for text in said},
        progress=progress,
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(recipe.seed)
        network = SarmNetwork(shape)
    set_scaling(network, films)
    return SarmTraining(network, config, films, read, texts, senseless, recipe, job.folder), held_out


def usual_gap(episodes: Sequence[Labelled], frames: int) -> float:
    """Seconds between the frames of a window that spans half of the median episode; at least one frame's time."""
    lengths = [float(one.times[-1]) for one in episodes]
    steps = [float(np.median(np.diff(one.times))) for one in episodes if len(one.times) > 1]
    return round(max(float(np.median(lengths)) / 2 / frames, float(np.median(steps or [0.1]))), 4)


def scene_of(episode: Episode) -> tuple[str, str]:
    """Task and scene of an episode; one that names no scene is a scene of its own."""
    return episode.task or episode.instruction, episode.pair or episode.id


def held_scenes(episodes: Sequence[Episode], share: float) -> set[tuple[str, str]]:
    """The scenes kept apart: of every task the share, at least one where there are two, and never all.

    Which ones depends on their names alone. A scene is whole on one side, so that nothing of it is learned.
    """
    tasks: dict[str, set[tuple[str, str]]] = {}
    for scene in map(scene_of, episodes):
        tasks.setdefault(scene[0], set()).add(scene)
    held: set[tuple[str, str]] = set()
    for scenes in tasks.values():
        order = sorted(scenes, key=lambda scene: hashlib.sha256("/".join(scene).encode()).digest())
        held |= set(order[: min(len(order) - 1, math.ceil(share * len(order)))])
    return held


def _labelled(job: SarmJobConfig, say: Say) -> tuple[list[Labelled], list[Labelled], str]:
    """Episodes to learn from and to check on, and which progress they are labelled with."""
    sources = [Source(path, job.labels) for path in job.datasets]
    episodes = [episode for source in sources for episode in source.episodes()]
    progress = progress_kind(episodes, job.progress)
    staged = job.mode != "single"
    scheme = "dense" if job.mode == "dual" and job.sparse_labels is None else None
    found, errors = read_labelled(episodes, progress, scheme=scheme, staged=staged)
    if not found:
        why = errors[0] if errors else "There are no episodes."
        raise SourceError(f"No episode has the labels to learn from. The first: {why}")
    if job.held_out:
        others = [episode for path in job.held_out for episode in Source(path).episodes()]
        checked, lacking = read_labelled(others, progress, scheme=scheme, staged=staged)
        errors += lacking
        episodes += others
    else:
        apart = held_scenes([one.episode for one in found], job.hold)
        checked = [one for one in found if scene_of(one.episode) in apart]
        found = [one for one in found if scene_of(one.episode) not in apart]
    known = {one.task for one in found}
    foreign = sorted({one.task for one in checked if one.task not in known})
    if foreign:
        raise OptionError(f"Held out, and not trained on: {', '.join(foreign)}. Their stages are not known.")
    if errors:
        say(f"{len(errors)} of {len(episodes)} episodes are left out. The first: {errors[0]}")
    say(f"{len(found)} episodes to learn from, {len(checked)} to check on; progress labels: {progress}.")
    return found, checked, progress


def _targets(
    job: SarmJobConfig, episodes: Sequence[Labelled], known: Procedures | None = None
) -> tuple[Procedures, dict[str, list[Targets]]]:
    """The stages and every episode's targets, by head."""
    tasks = {one.task for one in episodes}
    procedures: Procedures = {}
    targets: dict[str, list[Targets]] = {}
    if job.mode == "dual":
        sparse = sparse_labelled(episodes, job.sparse_labels)
        procedures["sparse"], targets["sparse"] = head_targets(
            sparse, None if known is None else known["sparse"]
        )
    else:
        procedures["sparse"] = dict.fromkeys(sorted(tasks), WHOLE)
        targets["sparse"] = whole_targets(episodes)
    if job.mode != "single":
        procedures["dense"], targets["dense"] = head_targets(
            episodes, None if known is None else known["dense"]
        )
    return procedures, targets


def _films(
    job: SarmJobConfig,
    episodes: Sequence[Labelled],
    targets: dict[str, list[Targets]],
    views: Sequence[str],
    encoder: FrameEncoder,
    say: Say,
    copies: int | None = None,
) -> list[SarmFilm]:
    """The episodes as the encoder sees them; told how far it is now and then, since it may take a while."""
    cache: Path = job.cache or job.folder / "encoded"
    encoded = 0

    def count(frames: int) -> None:
        nonlocal encoded
        before, encoded = encoded, encoded + frames
        if encoded // 2000 > before // 2000:
            say(f"{encoded} frames encoded")

    films = []
    for number, one in enumerate(episodes):
        seen = tuple(
            see_episode(one.episode, views, encoder, cache, copy, count)
            for copy in range(1 + (job.copies if copies is None else copies))
        )
        state = film_state(one.episode, job.state)
        films.append(SarmFilm(one, seen, state, {head: rows[number] for head, rows in targets.items()}))
    return films
