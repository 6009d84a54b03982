"""The beginning of a training run of SARM: labelled episodes, their encoded frames, and a network."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import numpy as np
import torch

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
from stepscore.training.job import Log
from stepscore.training.labelled_source import LabelledSource
from stepscore.training.sarm.batches import random_instructions
from stepscore.training.sarm.config import SarmJobConfig
from stepscore.training.sarm.dataset import (
    TrainingEpisode,
    choose_progress,
    encode_episode,
    episode_state,
    read_labelled,
    with_sparse_stages,
)
from stepscore.training.sarm.targets import (
    SINGLE_STAGE,
    STAGES,
    LabelledEpisode,
    Targets,
    head_targets,
    single_stage_targets,
)
from stepscore.training.sarm.trainer import SarmTrainer, set_scaling
from stepscore.training.scenes import scene_of, validation_scenes

LOG_EVERY_FRAMES = 2000
Procedures = dict[str, dict[str, Procedure]]


def set_up(job: SarmJobConfig, log: Log) -> tuple[SarmTrainer, list[TrainingEpisode]]:
    """Return the trainer of a job, and the held-out episodes to evaluate on."""
    labelled, held_labelled, progress = _read_datasets(job, log)
    views = job.views or tuple(labelled[0].episode.views)
    encoder = get_encoder(job.encoder, job.device)
    procedures, targets = _targets(job, labelled)
    _, held_targets = _targets(job, held_labelled, procedures) if held_labelled else ({}, {})
    episodes = _encode_episodes(job, labelled, targets, views, encoder, log)
    held_out = _encode_episodes(job, held_labelled, held_targets, views, encoder, log, n_augmentations=0)
    instructions = _instructions(labelled)
    random_texts = random_instructions(job.train_config.seed)
    own_texts = (one.episode.instruction for one in [*labelled, *held_labelled])
    texts = list(dict.fromkeys([*random_texts, *own_texts]))
    text_features: dict[str, Float32] = dict(zip(texts, encoder.encode_text(texts), strict=True))
    window = _window(job, labelled)
    shape = _shape(job, episodes[0], len(text_features[texts[0]]), window, procedures)
    config = SarmConfig(
        mode=job.mode,
        window=window,
        views=views,
        state=job.state,
        encoder=dict(encoder.describe()),
        sizes=asdict(shape),
        procedures=procedures,
        tasks={text: task for task, texts in instructions.items() for text in texts},
        progress=progress,
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(job.train_config.seed)
        network = SarmNetwork(shape)
    set_scaling(network, episodes)
    trainer = SarmTrainer(
        network,
        config,
        episodes,
        text_features,
        instructions,
        random_texts,
        job.train_config,
        job.folder,
    )
    return trainer, held_out


def _instructions(episodes: Sequence[LabelledEpisode]) -> dict[str, list[str]]:
    """Return the different instructions of each task."""
    instructions: dict[str, list[str]] = {}
    for labelled in episodes:
        known = instructions.setdefault(labelled.task, [])
        if labelled.episode.instruction not in known:
            known.append(labelled.episode.instruction)
    return instructions


def _window(job: SarmJobConfig, episodes: Sequence[LabelledEpisode]) -> Window:
    n_obs_steps = Window.frames if job.n_obs_steps is None else job.n_obs_steps
    return Window(n_obs_steps, job.frame_gap_s or default_frame_gap(episodes, n_obs_steps), job.causal)


def _shape(
    job: SarmJobConfig, episode: TrainingEpisode, text: int, window: Window, procedures: Procedures
) -> SarmShape:
    """Return the network's sizes: those the data needs, those the job states, and else the network's defaults."""
    stated = {"width": job.hidden_dim, "layers": job.n_layers, "attention_heads": job.n_heads}
    return SarmShape(
        features=episode.features[0].shape[-1],
        text=text,
        views=episode.features[0].shape[1],
        state=episode.state.shape[1],
        stages={head: max(len(p.stages) for p in tasks.values()) for head, tasks in procedures.items()},
        slots=window.slots,
        causal=job.causal,
        **{name: value for name, value in stated.items() if value is not None},
    )


def default_frame_gap(episodes: Sequence[LabelledEpisode], n_obs_steps: int) -> float:
    """Return the seconds between frames of a window that spans half the median episode; at least one frame's time."""
    lengths = [float(labelled.times[-1]) for labelled in episodes]
    periods = [float(np.median(np.diff(labelled.times))) for labelled in episodes if len(labelled.times) > 1]
    return round(max(float(np.median(lengths)) / 2 / n_obs_steps, float(np.median(periods or [0.1]))), 4)


def _read_datasets(job: SarmJobConfig, log: Log) -> tuple[list[LabelledEpisode], list[LabelledEpisode], str]:
    """Return the episodes to train on, those to evaluate on, and which progress they are labelled with."""
    derive = job.success_from_stages
    datasets = [LabelledSource(path, job.labels, job.subgoals, derive) for path in job.datasets]
    episodes = [episode for dataset in datasets for episode in dataset.episodes(log)]
    progress = choose_progress(episodes, job.progress)
    staged = job.mode != "single"
    scheme = "dense" if job.mode == "dual" and job.sparse_labels is None else None
    labelled, errors = read_labelled(episodes, progress, scheme=scheme, staged=staged)
    if not labelled:
        why = errors[0] if errors else "There are no episodes."
        raise SourceError(f"No episode has the labels to train on. The first: {why}")
    if job.eval_datasets:
        held = [LabelledSource(path, success_from_stages=derive) for path in job.eval_datasets]
        others = [episode for dataset in held for episode in dataset.episodes(log)]
        held_out, other_errors = read_labelled(others, progress, scheme=scheme, staged=staged)
        errors += other_errors
        episodes += others
    else:
        apart = validation_scenes([one.episode for one in labelled], job.val_fraction)
        held_out = [one for one in labelled if scene_of(one.episode) in apart]
        labelled = [one for one in labelled if scene_of(one.episode) not in apart]
    trained = {one.task for one in labelled}
    untrained = sorted({one.task for one in held_out if one.task not in trained})
    if untrained:
        raise OptionError(
            f"Held out, and not trained on: {', '.join(untrained)}. Their stages are not known."
        )
    if errors:
        log(f"{len(errors)} of {len(episodes)} episodes are left out. The first: {errors[0]}")
    unknown = sum(one.done is None and bool(one.spans) for one in labelled)
    if unknown and progress == STAGES:
        log(
            f"{unknown} of {len(labelled)} episodes to train on have stages and no success label: how far their last "
            "stage got is unknown and not trained. If the last stage means success: -T success-from-stages=true"
        )
    log(f"{len(labelled)} episodes to train on, {len(held_out)} to evaluate on; progress labels: {progress}.")
    return labelled, held_out, progress


def _targets(
    job: SarmJobConfig, episodes: Sequence[LabelledEpisode], known: Procedures | None = None
) -> tuple[Procedures, dict[str, list[Targets]]]:
    """Return the stages and every episode's targets, by head."""
    tasks = {labelled.task for labelled in episodes}
    procedures: Procedures = {}
    targets: dict[str, list[Targets]] = {}
    if job.mode == "dual":
        sparse = with_sparse_stages(episodes, job.sparse_labels)
        procedures["sparse"], targets["sparse"] = head_targets(
            sparse, None if known is None else known["sparse"]
        )
    else:
        procedures["sparse"] = dict.fromkeys(sorted(tasks), SINGLE_STAGE)
        targets["sparse"] = single_stage_targets(episodes)
    if job.mode != "single":
        procedures["dense"], targets["dense"] = head_targets(
            episodes, None if known is None else known["dense"]
        )
    return procedures, targets


def _encode_episodes(
    job: SarmJobConfig,
    episodes: Sequence[LabelledEpisode],
    targets: dict[str, list[Targets]],
    views: Sequence[str],
    encoder: FrameEncoder,
    log: Log,
    n_augmentations: int | None = None,
) -> list[TrainingEpisode]:
    """Encode the episodes and their augmented copies; logs how many frames are done, since it may take a while."""
    features_dir: Path = job.features_dir or job.folder / "encoded"
    copies = 1 + (job.n_augmentations if n_augmentations is None else n_augmentations)
    n_frames = 0

    def count(frames: int) -> None:
        nonlocal n_frames
        before, n_frames = n_frames, n_frames + frames
        if n_frames // LOG_EVERY_FRAMES > before // LOG_EVERY_FRAMES:
            log(f"{n_frames} frames encoded")

    encoded = []
    for number, labelled in enumerate(episodes):
        features = tuple(
            encode_episode(labelled.episode, views, encoder, features_dir, copy, count)
            for copy in range(copies)
        )
        state = episode_state(labelled.episode, job.state)
        own = {head: rows[number] for head, rows in targets.items()}
        encoded.append(TrainingEpisode(labelled, features, state, own))
    return encoded
