"""The better-policy experiment in its short version, and the parts that its figures rest on."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from examples.better_policy import setting as fixed
from examples.better_policy.configurations import (
    GOOD,
    LABELS,
    PLAIN,
    SHUFFLED,
    SHUFFLED_FORM,
    Configuration,
    all_configurations,
    frame_weights,
    sample_weights,
    shuffled,
)
from examples.better_policy.demonstrations import DATASET, Record, fits, read_facts, read_record
from examples.better_policy.evaluation import Scene, run_trial, scene_number
from examples.better_policy.experiment import run
from examples.better_policy.judging import RUNS, judged_file, unlabelled
from examples.better_policy.policy import make_samples, train
from examples.better_policy.results import Outcomes, best_forms, compare_configurations
from examples.better_policy.setting import SHORT, STEPS_PER_FRAME, Setting, claim
from examples.better_policy.trials import read_trials, trials_file
from stepscore.episodes import open_episodes
from stepscore.errors import OptionError
from stepscore.sim import LABELS_FILE, Rollout, RolloutPlan, SimEnv, get_task
from stepscore.training.embedded.tasks import TRAINED
from stepscore.types import FloatArray
from tests.sim.conftest import simulator as simulator

(TASK,) = SHORT.tasks


@pytest.fixture(scope="module")
def work(simulator: None, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("better") / "work"
    run(folder, SHORT, workers=1, log=lambda text: None)
    return folder


def units(work: Path) -> dict[Path, int]:
    """Every file of a finished unit, with the time it was written."""
    kept = (path for path in sorted((work / TASK).rglob("*")) if path.is_file())
    return {path: path.stat().st_mtime_ns for path in kept}


def test_what_is_on_disk_is_not_made_again_and_what_is_lost_comes_out_the_same(work: Path) -> None:
    before, table, lines = units(work), (work / "table.md").read_text(), list[str]()
    lost = trials_file(work / TASK, 1)
    content = lost.read_bytes()
    lost.unlink()
    again = run(work, SHORT, workers=1, log=lines.append)
    made = [line for line in lines if " s CPU" in line]
    assert [line.split(":")[0] for line in made] == [f"trials {TASK} seed 1"]
    assert lost.read_bytes() == content
    assert {path for path, at in units(work).items() if at != before[path]} == {lost}
    assert again == table


def test_the_experiment_ends_with_two_tables_and_a_plot(work: Path) -> None:
    kept = json.loads((work / "table.json").read_text())
    groups = {(row["group"], row["arm"]) for row in kept["arms"]}
    assert groups == {
        (group, config.name) for group in ("all", TASK) for config in all_configurations(SHORT.sources)
    }
    assert all(row["success"]["n"] == SHORT.seeds * SHORT.scenes for row in kept["arms"])
    assert kept["best"][0]["chosen_on_seeds"] == [0]
    assert (work / "differences.svg").stat().st_size > 0
    assert (work / "differences.png").stat().st_size > 0


def test_every_configuration_meets_the_same_scenes_and_every_seed_others(work: Path) -> None:
    trials = [read_trials(work / TASK, seed) for seed in range(SHORT.seeds)]
    assert all(one.success.shape == (len(one.configs), SHORT.scenes) for one in trials)
    assert not set(trials[0].scenes) & set(trials[1].scenes)
    numbers = {scene_number(TASK, int(scene), SHORT.scene_seed) for one in trials for scene in one.scenes}
    assert len(numbers) == SHORT.seeds * SHORT.scenes


def test_demonstrations_end_as_their_kind_says(work: Path) -> None:
    dataset, facts = work / TASK / DATASET, read_facts(work / TASK)
    ended = [episode.labels.success for episode in open_episodes(dataset, labels=dataset / LABELS_FILE)]
    assert ended == [kind != "failed" for kind in facts.kinds]
    assert [facts.kinds.count(kind) for kind in ("good", "failed", "wasteful")] == [2, 1, 1]
    assert len(set(facts.scenes)) == len(facts.scenes)
    assert list(facts.scenes) != sorted(facts.scenes), (
        "of equals a filter keeps the first, which are not the good"
    )


def test_no_judge_knows_how_a_demonstration_ended_or_who_made_it(work: Path) -> None:
    episodes = unlabelled(work / TASK / DATASET)
    assert all(episode.labels.success is None and episode.policy is None for episode in episodes)


def test_a_sample_has_the_weight_of_the_frame_shown_then(work: Path) -> None:
    record = read_record(work / TASK)
    for number in np.unique(record.episode):
        own = record.frame[record.episode == number]
        assert set(record.owner[own]) == {number}
        assert (np.diff(own) >= 0).all()
        assert (
            own[: 2 * STEPS_PER_FRAME] - own[0] == np.arange(2 * STEPS_PER_FRAME) // STEPS_PER_FRAME
        ).all()
    kinds = np.array(read_facts(work / TASK).kinds)[record.episode]
    for form, kept in ((LABELS, ["good", "wasteful"]), (GOOD, ["good"])):
        (weights,) = sample_weights(work / TASK, [Configuration("", form)], record, seed=0)
        assert (weights[~np.isin(kinds, kept)] == 0).all()
        assert len(np.unique(weights[np.isin(kinds, kept)])) == 1


def test_shuffled_weights_keep_the_histogram_and_lose_their_place(work: Path) -> None:
    owner = read_record(work / TASK).owner
    straight = frame_weights(work / TASK, Configuration("truth", SHUFFLED_FORM), owner, seed=0).weight
    dealt = [
        frame_weights(work / TASK, Configuration("truth", SHUFFLED), owner, seed).weight for seed in (0, 1)
    ]
    for weights in dealt:
        assert np.sort(weights) == pytest.approx(np.sort(straight))
        assert (weights != straight).any()
    assert (dealt[0] != dealt[1]).any(), "another seed shuffles them anew"
    assert (shuffled(straight, TASK, 0) == shuffled(straight, TASK, 0)).all()


def test_truth_weights_failures_less_than_good_demonstrations(work: Path) -> None:
    weights = json.loads((work / "table.json").read_text())["mean_weight"]
    for form in ("rabc", "awr", "filter"):
        assert weights[f"truth: {form}"]["failed"] < weights[f"truth: {form}"]["good"], form


def test_a_folder_of_another_setting_is_refused(work: Path) -> None:
    with pytest.raises(OptionError, match="seeds"):
        claim(work, replace(SHORT, seeds=3))


def test_a_run_that_stopped_before_its_check_is_checked_again(work: Path) -> None:
    marks, tables = judged_file(work / TASK, "truth"), work / TASK / RUNS / "truth" / "curves.parquet"
    kept, before = marks.read_bytes(), tables.read_bytes()
    marks.unlink()
    lines = list[str]()
    run(work, SHORT, workers=1, log=lines.append)
    assert [line.split(":")[0] for line in lines if " s CPU" in line] == [f"judging by truth {TASK}"]
    assert (marks.read_bytes(), tables.read_bytes()) == (kept, before)


# The parts that need no simulator.


def test_weights_of_one_embedded_judge_are_not_mixed_with_those_of_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    judged = replace(SHORT, sources=("embedded",))
    claim(tmp_path, judged)
    claim(tmp_path, judged)
    monkeypatch.setattr(fixed, "judge_digest", lambda: "another")
    claim(tmp_path / "truth", SHORT)
    with pytest.raises(OptionError, match="embedded_judge"):
        claim(tmp_path, judged)


SMALL = Setting(hidden_dim=8, steps=15, batch_size=8, chunk=1)


@pytest.fixture(scope="module")
def record() -> Record:
    rng = np.random.default_rng(0)
    return Record(
        states=rng.normal(size=(60, 4)),
        things=rng.normal(size=(60, 9)),
        actions=rng.uniform(-1, 1, size=(60, 4)),
        episode=np.repeat([0, 1, 2], 20),
        frame=np.arange(60) // STEPS_PER_FRAME,
        owner=np.zeros(8, dtype=np.int64),
    )


def alone(record: Record, weights: FloatArray | None, seed: int) -> list[torch.Tensor]:
    """Train the obvious way: one network, one sample's loss at a time, and no weights where there are none."""
    samples, rng = make_samples(record, SMALL.horizon), torch.Generator().manual_seed(seed)
    parts = []
    for wide, narrow in ((19, 8), (8, 8), (8, 32)):
        parts.append((torch.randn(wide, narrow, generator=rng) * (2.0 / wide) ** 0.5).requires_grad_())
        parts.append(torch.zeros(narrow, requires_grad=True))
    optimizer, drawn = torch.optim.Adam(parts), np.random.default_rng([seed, 1])
    for step in range(SMALL.steps):
        optimizer.param_groups[0]["lr"] = SMALL.lr * (
            0.01 + 0.99 * 0.5 * (1 + np.cos(np.pi * step / SMALL.steps))
        )
        losses = []
        for place in drawn.integers(60, size=SMALL.batch_size):
            layer = samples.inputs[place]
            for number in range(3):
                layer = (layer.relu() if number else layer) @ parts[2 * number] + parts[2 * number + 1]
            left = 20 * (record.episode[place] + 1) - place
            there = layer.reshape(-1, 4)[:left]
            done = torch.from_numpy(record.actions[place : place + len(there)]).float()
            loss = torch.nn.functional.mse_loss(there, done)
            losses.append(loss if weights is None else loss * float(weights[place]))
        optimizer.zero_grad()
        torch.stack(losses).mean().backward()
        optimizer.step()
    return [part.detach() for part in parts]


def test_all_configurations_at_once_learn_what_each_learns_alone_and_weights_of_1_are_plain_cloning(
    record: Record,
) -> None:
    some = np.random.default_rng(1).uniform(0, 2, 60)
    made = train(
        make_samples(record, SMALL.horizon), np.stack([np.ones(60), some, np.ones(60)]), SMALL, seed=4
    )
    for config, weights in ((0, None), (1, some)):
        oracle = alone(record, weights, seed=4)
        for number in range(3):
            assert made.weights[number][config] == pytest.approx(oracle[2 * number].numpy(), abs=2e-4)
            assert made.biases[number][config] == pytest.approx(oracle[2 * number + 1].numpy(), abs=2e-4)
    for weight in made.weights:
        assert (weight[0] == weight[2]).all(), "the same weights, the same network, to the last bit"
        assert (weight[0] != weight[1]).any()


def test_the_policy_of_a_trial_is_the_trained_network(record: Record) -> None:
    samples = make_samples(record, SMALL.horizon)
    made = train(samples, np.ones((2, 60)), SMALL, seed=0)
    seen = samples.inputs[7].numpy() * samples.spread + samples.mean
    layer = samples.inputs[7].double()
    for number in range(3):
        weight, bias = torch.from_numpy(made.weights[number][1]), torch.from_numpy(made.biases[number][1])
        layer = (layer.relu() if number else layer) @ weight + bias
    assert made.of(1)(seen) == pytest.approx(layer.reshape(-1, 4).clamp(-1, 1).numpy(), abs=1e-5)


def test_a_chunk_ends_with_its_episode(record: Record) -> None:
    samples = make_samples(record, SMALL.horizon)
    assert samples.inside[12].tolist() == [1.0] * 8
    assert samples.inside[19].tolist() == [1.0] + [0.0] * 7
    assert samples.chunks[18, 1].tolist() == pytest.approx(record.actions[19].tolist(), abs=1e-6)
    assert not samples.chunks[18, 2:].any()


@pytest.fixture(scope="module")
def env(simulator: None) -> Iterator[SimEnv]:
    env = SimEnv(get_task("drawer-open"))
    yield env
    env.close()


def test_a_restored_scene_continues_as_one_that_was_set_up_anew(env: SimEnv) -> None:
    actions = np.random.default_rng(0).uniform(-1, 1, (24, 4))

    def played() -> FloatArray:
        seen = []
        for action in actions:
            env.step(action)
            seen.append([*env.hand, *env.task.environment_state(env.state())])
        return np.array(seen)

    env.reset(5)
    fresh = played()
    scene = Scene(env, 5)
    env.reset(7)
    assert np.abs(played() - fresh).max() > 0.01, "another scene is another scene"
    found = []
    for _ in range(2):
        scene.restore()
        found.append(played())
    assert found[0] == pytest.approx(fresh, abs=1e-9)
    assert (found[0] == found[1]).all()


def test_a_trial_ends_at_success_or_when_the_time_is_up(env: SimEnv) -> None:
    scene = Scene(env, scene_number("drawer-open", 0, 5))
    idle = run_trial(scene, lambda seen: np.zeros((8, 4)), time=30)
    assert (idle.success, idle.subgoals, idle.steps) == (False, 0.0, 30)


def rollout(*success: bool) -> Rollout:
    n, nothing = len(success), np.zeros((len(success), 1))
    truths = np.array(success)[:, None]
    plan = RolloutPlan("drawer-open", "slow", 0)
    return Rollout(plan, 10, {}, nothing, nothing, nothing, np.zeros(n), np.zeros(n, dtype=np.int64), truths)


def test_wasteful_is_successful_and_a_quarter_slower_than_good() -> None:
    quick, slow = rollout(False, False, True), rollout(*[False] * 6, True)
    assert [fits(kind, quick, [16.0, 16.0]) for kind in ("good", "failed", "wasteful")] == [
        True,
        False,
        False,
    ]
    assert fits("wasteful", slow, [16.0, 16.0])
    assert [fits(kind, rollout(True, False), [16.0]) for kind in ("good", "failed", "wasteful")] == [
        False,
        True,
        False,
    ]


def made_up(better: float) -> Outcomes:
    """Two judges on two tasks, ten seeds of 10 scenes: one form truly better, another lucky on the first seeds."""
    configs = all_configurations(["sarm", "embedded"])
    rng = np.random.default_rng(0)
    seed = np.tile(np.repeat(np.arange(10), 10), 2)
    task = np.repeat(["a", "b"], 100)
    rates = np.full((len(configs), 200), 0.5)
    rates[configs.index(Configuration("sarm", "rabc"))] += better
    rates[configs.index(Configuration("embedded", "awr"))] += np.where(seed < 5, 0.4, 0.0)
    success = (rng.uniform(size=rates.shape) < rates).astype(float)
    return Outcomes(configs, {"success": success, "subgoals": (1 + success) / 2}, task, seed)


def test_differences_are_paired_and_clustered_by_task_and_seed() -> None:
    outcomes = made_up(0.3)
    config, plain = Configuration("sarm", "rabc"), Configuration("", PLAIN)
    (row,) = [one for one in compare_configurations(outcomes) if (one.group, one.config) == ("all", config)]
    gain = outcomes.values["success"][outcomes.row(config)] - outcomes.values["success"][outcomes.row(plain)]
    found = row.to_plain["success"]
    assert found.value == pytest.approx(gain.mean())
    assert (found.n, found.clusters) == (200, 20)
    by_seed = gain.reshape(20, 10).mean(axis=1).reshape(2, 10)
    error = np.sqrt((by_seed.var(axis=1, ddof=1) / 10).mean() / 2)
    assert found.hi - found.lo == pytest.approx(2 * 2.101 * error, rel=1e-3), "t with 18 degrees of freedom"
    assert row.to_shuffled["success"].n == 200


def test_the_best_form_is_reported_on_seeds_it_was_not_chosen_on() -> None:
    best = {one.among: one for one in best_forms(made_up(0.3))}
    lucky = best["sarm", "embedded"]
    assert lucky.config == Configuration("embedded", "awr")
    assert lucky.rows[0].estimates["success"].n == 100
    assert abs(lucky.rows[0].to_plain["success"].value) < 0.2, "its luck does not last"
    assert best[("sarm",)].config == Configuration("sarm", "rabc")


def test_the_tasks_are_known_to_the_embedded_judge() -> None:
    assert set(Setting().tasks) <= set(TRAINED)
    assert len(Setting().tasks) >= 6
    assert Setting().seeds >= 5
    assert Setting().seeds * Setting().scenes >= 200
