"""The domain gate: what it lets through, what it refuses, and that a file of it says the same."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from stepscore.errors import ModelError, OptionError
from stepscore.models import Generate, Prompt, Score, ScorePrefixes, Shown, Turn
from stepscore.models.domain_gate import (
    GATE_FILE,
    DomainGate,
    decisive_pictures,
    gate_digest,
    load_gate,
    picture_features,
    save_gate,
)
from stepscore.models.qwen3vl_network import Qwen3VLNetwork
from stepscore.training.domain_gate import Recipe, make_gate
from stepscore.training.gate_evaluation import CHANGES, Refusals, evaluate_gate
from stepscore.training.gate_pictures import SPOILS, spoiled, varied
from tests.models import scenes, tiny

RECIPE = Recipe(copies=2, foreign_copies=1, spoils=1, components=48, hidden=32, epochs=15)


@pytest.fixture(scope="module")
def network() -> Qwen3VLNetwork:
    return tiny.network()


@pytest.fixture(scope="module")
def gate(network: Qwen3VLNetwork) -> DomainGate:
    return make_gate(network, scenes.pictures("trained", 48), scenes.pictures("foreign", 24), RECIPE)


def features(network: Qwen3VLNetwork, kind: str, seed: int = 9) -> np.ndarray:
    return picture_features(network, [p.pixels for p in scenes.pictures(kind, 30, seed)])


class TestDecisions:
    def test_new_pictures_of_the_trained_kind_pass_and_others_do_not(
        self, network: Qwen3VLNetwork, gate: DomainGate
    ) -> None:
        assert gate.passes(features(network, "trained")).mean() >= 0.9
        assert gate.passes(features(network, "foreign")).mean() <= 0.05

    def test_blank_and_noisy_pictures_are_refused(self, network: Qwen3VLNetwork, gate: DomainGate) -> None:
        rng = np.random.default_rng(0)
        base = scenes.trained(rng)
        made = [SPOILS[kind](base, base, rng) for kind in ("blank", "noise") for _ in range(10)]
        assert gate.passes(picture_features(network, made)).mean() <= 0.1

    def test_few_pictures_kept_apart_are_refused_and_the_facts_say_how_many(self, gate: DomainGate) -> None:
        assert 0 <= gate.facts["refused_of_kept_apart"] <= 0.06  # 2 %, of few pictures
        assert gate.facts["kept_apart"] == 12 * (1 + RECIPE.copies)

    def test_far_away_is_refused_whatever_the_log_odds_say(
        self, network: Qwen3VLNetwork, gate: DomainGate
    ) -> None:
        sure = replace(gate, threshold=-np.inf)
        far = gate.mean + 40 * gate.scale[0] ** 2 * gate.basis[:, 0]  # 40 deviations along one component
        assert not sure.passes(far[None])[0]
        assert sure.passes(gate.mean[None])[0]

    def test_the_same_seed_makes_the_same_gate(self, network: Qwen3VLNetwork, gate: DomainGate) -> None:
        again = make_gate(network, scenes.pictures("trained", 48), scenes.pictures("foreign", 24), RECIPE)
        assert (again.threshold, again.farthest) == (gate.threshold, gate.farthest)
        np.testing.assert_array_equal(again.first, gate.first)

    def test_log_odds_are_those_of_the_plain_formula(self, network: Qwen3VLNetwork, gate: DomainGate) -> None:
        import torch

        z = gate.coordinates(features(network, "trained"))
        hidden = torch.nn.functional.gelu(
            torch.from_numpy(np.clip(z, -10, 10) @ gate.first + gate.first_bias), approximate="tanh"
        )
        told = (hidden @ torch.from_numpy(gate.last) + torch.from_numpy(gate.last_bias))[:, 0]
        np.testing.assert_allclose(gate.log_odds(z), told.numpy(), atol=1e-4)

    def test_too_few_scenes_make_no_gate(self, network: Qwen3VLNetwork) -> None:
        with pytest.raises(OptionError, match="at least 4 scenes"):
            make_gate(network, scenes.pictures("trained", 3), scenes.pictures("foreign", 5))


class TestFiles:
    def test_a_saved_gate_decides_as_before(
        self, network: Qwen3VLNetwork, gate: DomainGate, tmp_path: Path
    ) -> None:
        save_gate(gate, tmp_path / GATE_FILE)
        read = load_gate(tmp_path / GATE_FILE)
        assert read.facts == gate.facts
        for kind in ("trained", "foreign"):
            shown = features(network, kind)
            assert (
                np.mean(read.passes(shown) == gate.passes(shown)) >= 0.96
            )  # float16 may turn a borderline one
            near = np.abs(read.log_odds(read.coordinates(shown)) - gate.log_odds(gate.coordinates(shown)))
            assert near.max() < 0.3

    def test_the_digest_tells_gates_apart(self, gate: DomainGate, tmp_path: Path) -> None:
        assert gate_digest(tmp_path) is None
        save_gate(gate, tmp_path / GATE_FILE)
        first = gate_digest(tmp_path)
        save_gate(replace(gate, threshold=gate.threshold + 1), tmp_path / GATE_FILE)
        assert None not in (first, gate_digest(tmp_path))
        assert first != gate_digest(tmp_path)

    def test_a_missing_gate_names_the_command_that_makes_it(self, tmp_path: Path) -> None:
        with pytest.raises(ModelError, match=re.escape("python -m stepscore.training.domain_gate")):
            load_gate(tmp_path / GATE_FILE)

    def test_another_file_is_refused(self, tmp_path: Path) -> None:
        (tmp_path / GATE_FILE).write_bytes(b"no gate at all")
        with pytest.raises(ModelError, match="is no gate"):
            load_gate(tmp_path / GATE_FILE)


class TestWhichPicturesDecide:
    def test_a_film_is_decided_by_its_first_frame_alone(self) -> None:
        film = Shown(tiny.clip(5), True)
        request = ScorePrefixes(film, (2, 5), tiny.HEAD, tiny.tails(), tiny.CANDIDATES)
        (picture,) = decisive_pictures(request)
        np.testing.assert_array_equal(picture, film.clip.frames[0])

    def test_of_a_conversation_every_picture_counts(self) -> None:
        stills = tuple(Shown(tiny.clip(1, seed=seed)) for seed in range(3))
        prompt = Prompt((Turn("user", ("Look: ", *stills, " Is it open?")),))
        for request in (Generate(prompt), Score(prompt, (" Yes", " No"))):
            assert len(decisive_pictures(request)) == 3


class TestPictures:
    @pytest.mark.parametrize("kind", SPOILS)
    def test_a_spoiled_picture_is_another_picture_of_the_same_size(self, kind: str) -> None:
        rng = np.random.default_rng(3)
        picture, other = scenes.trained(rng), scenes.foreign(rng)
        before = picture.copy()
        made = [SPOILS[kind](picture, other, rng) for _ in range(8)]
        assert all(one.shape == picture.shape and one.dtype == np.uint8 for one in made)
        assert any(np.mean(one != picture) > 0.02 for one in made)
        np.testing.assert_array_equal(picture, before)

    def test_copies_and_spoils_depend_on_the_seed_alone(self) -> None:
        picture, other = (scenes.trained(np.random.default_rng(seed)) for seed in (1, 2))
        for make in (lambda rng: varied(picture, rng), lambda rng: spoiled(picture, other, rng)):
            np.testing.assert_array_equal(make(np.random.default_rng(5)), make(np.random.default_rng(5)))


class TestEvaluation:
    def test_it_counts_by_change_and_by_kind_and_adds_up(
        self, network: Qwen3VLNetwork, gate: DomainGate
    ) -> None:
        inside = [p.pixels for p in scenes.pictures("trained", 12, seed=5)]
        rooms = [p.pixels for p in scenes.pictures("foreign", 8, seed=6)]
        found = evaluate_gate(gate, network, inside, {"rooms": rooms}, made=4)
        own = [one for one in found if one.side == "inside"]
        assert [one.kind for one in own] == [*CHANGES, "all"]
        assert own[-1].n == 12 * len(CHANGES)
        assert own[-1].refused == sum(one.refused for one in own[:-1])
        assert next(one for one in found if one.kind == "rooms").n == 8

    def test_a_share_has_its_wilson_interval(self) -> None:
        row = Refusals("foreign", "rooms", 8, 10).row()
        assert (row["share"], round(float(str(row["lo"])), 3), round(float(str(row["hi"])), 3)) == (
            0.8,
            0.49,
            0.943,
        )
