"""Training SARM: stopping loses nothing, padding has no gradient, frames are encoded once, and it learns."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F  # noqa: N812
from typer.testing import CliRunner

from stepscore.cli.app import app
from stepscore.cli.options.keys import keys_of
from stepscore.episodes import open_episodes
from stepscore.episodes.labels.labels import read_labels
from stepscore.errors import OptionError, SourceError, UnknownNameError
from stepscore.models.sarm.checkpoint import read_config
from stepscore.models.sarm.encoders import get_encoder
from stepscore.models.sarm.model import SarmModel
from stepscore.models.sarm.network import SarmShape
from stepscore.models.sarm.window import Window
from stepscore.procedures.labels_table import write_labels
from stepscore.training.sarm.batches import Batch, PerturbationConfig, make_batch, sample_window
from stepscore.training.sarm.config import SarmJobConfig, SarmTrainConfig
from stepscore.training.sarm.dataset import TrainingEpisode, encode_episode
from stepscore.training.sarm.evaluation import evaluate
from stepscore.training.sarm.job import SarmJob
from stepscore.training.sarm.setup import set_up
from stepscore.training.sarm.trainer import SarmTrainer, sarm_loss
from stepscore.training.scenes import scene_of, validation_scenes
from tests.models.sarm import tiny_sarm
from tests.paths import TINY_SIM


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    torch.set_num_threads(1)
    made = tmp_path_factory.mktemp("sarm")
    tiny_sarm.clip_folder(made / "clip")
    return made


def job(place: Path, folder: Path, train: dict[str, object] | None = None, **options: object) -> SarmJob:
    config = SarmTrainConfig(**{"steps": 4, "batch_size": 4, "save_every": 100, **(train or {})})  # type: ignore[arg-type]
    small = {
        "hidden_dim": 16,
        "n_layers": 1,
        "n_heads": 2,
        "n_obs_steps": 4,
        "threads": 1,
        "val_fraction": 0.2,
    }
    encoder = f"hf/{place / 'clip'}"
    chosen = {
        **small,
        "encoder": encoder,
        "features_dir": place / "features",
        "views": ("corner",),
        **options,
    }
    return SarmJob((TINY_SIM,), folder, train_config=config, **chosen)  # type: ignore[arg-type]


def training(place: Path, folder: Path, **train: object) -> tuple[SarmTrainer, list[TrainingEpisode]]:
    folder.mkdir(exist_ok=True)
    return set_up(job(place, folder, train), lambda text: None)


def test_a_resumed_run_ends_with_the_weights_of_one_without_a_stop(place: Path, tmp_path: Path) -> None:
    straight, _ = training(place, tmp_path / "a")
    straight.run()
    stopped, _ = training(place, tmp_path / "b")

    def stop(step: int, loss: float) -> None:
        if step == 2:
            stopped.save()
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        stopped.run(on_step=stop)
    again, _ = training(place, tmp_path / "b")
    assert again.resume()
    assert again.step == 2
    again.run()
    for name, weights in straight.network.state_dict().items():
        assert torch.equal(weights, again.network.state_dict()[name]), name


def test_resuming_with_another_config_is_refused_and_names_the_option(place: Path, tmp_path: Path) -> None:
    training(place, tmp_path)[0].run(max_minutes=0)
    with pytest.raises(OptionError, match=r"other data \(lr\)"):
        training(place, tmp_path, lr=0.5)[0].resume()


def sample_batch(run: SarmTrainer, n: int = 6) -> Batch:
    rng = np.random.default_rng(1)
    perturbation, window = PerturbationConfig(0.5, 0.2), run.model_config.window
    texts, random_texts = run.instructions, run.random_instructions
    sampled = [
        sample_window(i, run.episodes[i], window, perturbation, texts, random_texts, rng) for i in range(n)
    ]
    return make_batch(sampled, run.episodes, run.model_config, run.text_features, rng)


def test_the_loss_is_the_mean_over_slots_that_are_no_padding(place: Path, tmp_path: Path) -> None:
    run, _ = training(place, tmp_path)
    run.network.eval()
    batch = sample_batch(run)
    _, parts = sarm_loss(run.network, batch, torch.ones(6, dtype=torch.bool))
    logs = run.network.stages(batch.windows)["dense"]
    stage, share = batch.stages["dense"], batch.shares["dense"]
    right = {"dense": stage.clamp(min=0), "sparse": torch.zeros_like(stage)}
    found = run.network.shares(batch.windows, right)["dense"]
    cross, squares = [], []
    for b in range(6):
        for t in range(run.model_config.window.slots):
            if batch.windows.valid[b, t]:
                cross.append(float(F.nll_loss(logs[b, t][None], stage[b, t][None]).detach()))
                squares.append(float(((found[b, t] - share[b, t]) ** 2).detach()))
    assert 0 < len(cross) < 6 * run.model_config.window.slots
    assert parts["dense_stage"] == pytest.approx(np.mean(cross), rel=1e-4)
    # Padded slots are in no stage at all: what they are given must not matter to the others.
    assert parts["dense_share"] == pytest.approx(np.mean(squares), rel=1e-4)


def test_what_stands_in_padding_has_no_gradient(place: Path, tmp_path: Path) -> None:
    run, _ = training(place, tmp_path)
    run.network.eval()
    batch = sample_batch(run)
    batch.windows.views.requires_grad_()
    loss, _ = sarm_loss(run.network, batch, torch.ones(6, dtype=torch.bool))
    torch.autograd.backward(loss)
    slopes = batch.windows.views.grad
    assert slopes is not None
    assert (slopes[~batch.windows.valid] == 0).all()
    assert slopes[batch.windows.valid].abs().max() > 0


def test_scaling_is_that_of_the_training_episodes_and_is_kept(place: Path, tmp_path: Path) -> None:
    made = job(place, tmp_path, state=("observation.state",))
    assert made.run()["finished"]
    run, _ = set_up(made, lambda text: None)
    rows = np.concatenate([episode.state for episode in run.episodes])
    kept = SarmModel(str(tmp_path)).network
    np.testing.assert_allclose(kept.state_mean.numpy(), rows.mean(0), rtol=1e-4, atol=1e-5)
    features = np.concatenate([episode.features[0] for episode in run.episodes]).astype(np.float64)
    np.testing.assert_allclose(kept.feature_mean.numpy(), features.mean(0), rtol=1e-3, atol=1e-4)
    np.testing.assert_allclose(kept.feature_std.numpy(), features.std(0) + 1e-3, rtol=1e-3, atol=1e-4)


def test_every_frame_is_encoded_once_and_never_again(place: Path, tmp_path: Path) -> None:
    encoder = get_encoder(f"hf/{place / 'clip'}")
    episode = open_episodes(TINY_SIM)[1]
    frames: list[int] = []
    views = ("gripper", "corner")
    first = encode_episode(episode, views, encoder, tmp_path, on_frames=frames.append)
    again = encode_episode(episode, views, encoder, tmp_path, on_frames=frames.append)
    n = len(episode.views["corner"].timestamps())
    assert sum(frames) == 2 * n
    np.testing.assert_array_equal(first, again)
    plain = encoder.encode_images(episode.clip("corner", indices=[5], size=encoder.side).frames)
    np.testing.assert_allclose(first[5, 1].astype(float), plain[0].astype(float), rtol=2e-3, atol=2e-3)
    changed = encode_episode(episode, views, encoder, tmp_path, augmentation=1)
    assert changed.shape == first.shape
    assert not np.allclose(changed, first)


@pytest.mark.parametrize("share", [0.05, 0.3, 0.9])
def test_some_scenes_of_every_task_are_kept_apart_as_a_whole(share: float) -> None:
    episodes = list(open_episodes(TINY_SIM))
    held = validation_scenes(episodes, share)
    for task in {scene_of(episode)[0] for episode in episodes}:
        scenes = {scene_of(episode) for episode in episodes if scene_of(episode)[0] == task}
        assert 0 < len(scenes & held) < len(scenes)
        assert validation_scenes([e for e in episodes if scene_of(e)[0] == task], share) == scenes & held
    assert validation_scenes(episodes, 0.0) == set()


@pytest.mark.parametrize("mode", ["single", "dense"])
def test_a_small_network_learns_stage_and_progress(place: Path, tmp_path: Path, mode: str) -> None:
    made = job(
        place,
        tmp_path,
        {"steps": 60, "batch_size": 16, "lr": 4e-3, "warmup_steps": 5},
        mode=mode,
        hidden_dim=32,
        causal=True,
    )
    run, _ = set_up(made, lambda text: None)
    before = evaluate(run.network, run.model_config, run.episodes, run.text_features)
    run.run()
    after = evaluate(run.network, run.model_config, run.episodes, run.text_features)
    assert after["mae"] < 0.7 * before["mae"]
    if mode == "dense":
        assert after["stage_accuracy"] > max(0.55, before["stage_accuracy"] + 0.1)
    else:
        assert np.isnan(after["stage_accuracy"])


def test_the_command_trains_and_the_judge_takes_what_it_made(place: Path, tmp_path: Path) -> None:
    command = [
        "train",
        "sarm",
        str(TINY_SIM),
        "-o",
        str(tmp_path / "ck"),
        "-T",
        f"encoder=hf/{place / 'clip'}",
    ]
    command += [
        "-T",
        "steps=3",
        "-T",
        "batch-size=4",
        "-T",
        "hidden-dim=16",
        "-T",
        "n-layers=1",
        "-T",
        "n-heads=2",
    ]
    command += [
        "-T",
        "causal=true",
        "-T",
        "views=corner",
        "-T",
        "threads=1",
    ]
    command += ["-T", "n-obs-steps=4"]
    stopped = CliRunner().invoke(app, [*command, "--max-minutes", "0"])
    assert "resumes" in stopped.output, stopped.output
    done = CliRunner().invoke(app, [*command, "--json"])
    assert done.exit_code == 0, done.output
    config = read_config(tmp_path / "ck")
    assert (config.mode, config.window.causal, config.views, config.progress) == (
        "dense", True, ("corner",), "potential",
    )  # fmt: skip
    checks = [json.loads(line) for line in (tmp_path / "ck" / "checks.jsonl").read_text().splitlines()]
    assert checks[-1]["step"] == 3
    assert {"mae", "mae_linear", "stage_accuracy", "voc", "auc"} <= set(checks[-1])
    judged = CliRunner().invoke(
        app,
        [
            "judge",
            str(TINY_SIM),
            "--judge",
            "sarm",
            "--model",
            f"sarm/{tmp_path / 'ck'}",
            "-o",
            str(tmp_path / "run"),
        ],
    )
    assert judged.exit_code == 0, judged.output


def test_both_heads_learn_in_dual_training(place: Path, tmp_path: Path) -> None:
    from stepscore.episodes import Label
    from stepscore.procedures.labels_table import write_labels

    episodes = list(open_episodes(TINY_SIM, labels=TINY_SIM / "labels.parquet"))
    rows = {
        e.id: [
            Label("stage", "near", 0.0, 0.4),
            Label("stage", "do", 0.4, float(e.view("corner").timestamps()[-1])),
        ]
        for e in episodes
    }
    write_labels(tmp_path / "sparse.parquet", rows)
    run, _ = set_up(
        job(
            place, tmp_path, {"true_stage_prob": 1.0}, mode="dual", sparse_labels=tmp_path / "sparse.parquet"
        ),
        lambda text: None,
    )
    before = {name: value.clone() for name, value in run.network.state_dict().items()}
    run.run()
    after = run.network.state_dict()
    for part in ("stage_heads.sparse", "stage_heads.dense", "progress_heads.sparse", "progress_heads.dense"):
        assert not torch.equal(before[f"{part}.weight"], after[f"{part}.weight"]), part


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"progress": "linear"}, "-T mode=single"),
        ({"sparse_labels": Path("x")}, "dual"),
        ({"val_fraction": 1.0}, "val_fraction"),
    ],
)
def test_options_that_make_no_sense_are_refused(
    options: dict[str, object], message: str, tmp_path: Path
) -> None:
    with pytest.raises(OptionError, match=message):
        SarmJob((TINY_SIM,), tmp_path, **options)  # type: ignore[arg-type]


def test_a_training_config_that_makes_no_sense_is_refused() -> None:
    with pytest.raises(OptionError, match="steps"):
        SarmTrainConfig(steps=0)


def test_sizes_that_are_not_stated_are_the_networks_own(
    place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The values after the sizes that every network must be given: width, layers, heads, dropout.
    monkeypatch.setattr(SarmShape.__init__, "__defaults__", (24, 2, 3, 0.1))
    run, _ = set_up(
        job(place, tmp_path, hidden_dim=None, n_layers=None, n_heads=None, n_obs_steps=None),
        lambda text: None,
    )
    shape = run.network.shape
    assert (shape.width, shape.layers, shape.attention_heads) == (24, 2, 3)
    assert run.model_config.window.frames == Window().frames


def test_the_help_states_the_sizes_that_a_network_has_by_default() -> None:
    keys = {key.name: key for key in keys_of(SarmJobConfig)}
    defaults = {"n_obs_steps": Window.frames, "hidden_dim": SarmShape.width, "n_layers": SarmShape.layers}
    for name, value in {**defaults, "n_heads": SarmShape.attention_heads}.items():
        assert f"({value})" in keys[name].help
        assert keys[name].default is None, "the network's own default holds"


def test_a_checkpoint_holds_the_training_config_under_the_names_it_always_had(
    place: Path, tmp_path: Path
) -> None:
    job(place, tmp_path, {"lr": 1e-3, "batch_size": 3, "seed": 5}).run()
    facts = read_config(tmp_path).facts
    assert facts["train_config"] == {
        "steps": 4, "batch_size": 3, "lr": 1e-3, "warmup_steps": 100, "weight_decay": 1e-3, "true_stage_prob": 0.75,
        "rewind_prob": 0.8, "language_perturbation_prob": 0.2, "save_every": 100, "seed": 5,
    }  # fmt: skip
    assert set(facts) == {"episodes", "frames", "step", "train_config", "copies"}


def test_an_unknown_mode_lists_the_known_ones(tmp_path: Path) -> None:
    with pytest.raises(UnknownNameError, match="dense, dual, single"):
        SarmJob((TINY_SIM,), tmp_path, mode="sparse")  # type: ignore[arg-type]


def test_a_dataset_without_labels_says_so(place: Path, tmp_path: Path) -> None:
    import shutil

    bare = tmp_path / "bare"
    shutil.copytree(TINY_SIM, bare)
    (bare / "labels.parquet").unlink()
    with pytest.raises(SourceError, match="No episode has the labels"):
        dataclasses.replace(job(place, tmp_path / "out"), datasets=(bare,)).run()


def test_episodes_that_are_left_out_are_reported_once(place: Path, tmp_path: Path) -> None:
    rows = dict(read_labels(TINY_SIM / "labels.parquet"))
    rows.pop(sorted(rows)[0])
    write_labels(tmp_path / "labels.parquet", rows)
    lines: list[str] = []
    chosen = job(place, tmp_path, labels=tmp_path / "labels.parquet", mode="single", progress="potential")
    set_up(chosen, lines.append)
    left_out = [text for text in lines if "left out" in text]
    assert len(left_out) == 1
    assert left_out[0].startswith(f"1 of {len(rows) + 1} episodes")
