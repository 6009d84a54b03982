"""The domain gate: what it lets through, what it refuses, and that a file of it says the same."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from stepscore.errors import ModelError, OptionError
from stepscore.models import DecodedMedia, Generate, Prompt, Score, ScorePrefixes, Turn
from stepscore.models.embedded.ood import (
    GATE_FILE,
    DomainGate,
    decisive_images,
    gate_digest,
    load_gate,
    save_gate,
)
from stepscore.models.qwen3vl import image_features
from stepscore.models.qwen3vl.network import Qwen3VLNetwork
from stepscore.training.gate.config import GateConfig
from stepscore.training.gate.evaluation import (
    IN_DISTRIBUTION,
    OUT_OF_DISTRIBUTION,
    PERTURBATIONS,
    TEXTS_PER_OOD_FRAME,
    GateQuery,
    Refusals,
    evaluate_gate,
)
from stepscore.training.gate.fit import Samples, fit_components, fit_network, scene_words, shared_scenes
from stepscore.training.gate.images import CORRUPTIONS, augment_image, corrupt_image
from stepscore.training.gate.training import train_gate
from tests.models import tiny
from tests.models.embedded import scenes

CONFIG = GateConfig(
    n_augmentations=2,
    n_ood_augmentations=1,
    n_corruptions=1,
    components=16,
    hidden_dim=32,
    steps=400,
    bank_per_scene=60,
)
BLOCK, RING = (scenes.INSTRUCTIONS[kind] for kind in ("trained", "ring"))


@pytest.fixture(scope="module")
def network() -> Qwen3VLNetwork:
    return tiny.network()


def trained_gate(network: Qwen3VLNetwork) -> DomainGate:
    ood = scenes.images("other", 24)
    return train_gate(network, scenes.in_distribution(), ood, CONFIG, scenes.PARAPHRASES)


@pytest.fixture(scope="module")
def gate(network: Qwen3VLNetwork) -> DomainGate:
    return trained_gate(network)


def features(network: Qwen3VLNetwork, kind: str, seed: int = 9) -> np.ndarray:
    return image_features(network, [image.pixels for image in scenes.images(kind, 30, seed)])


class TestDecisions:
    @pytest.mark.parametrize(("kind", "own", "other"), [("trained", BLOCK, RING), ("ring", RING, BLOCK)])
    def test_new_images_pass_under_their_instruction_and_not_under_another(
        self, network: Qwen3VLNetwork, gate: DomainGate, kind: str, own: str, other: str
    ) -> None:
        fits = gate.fits(features(network, kind))
        assert gate.passes(fits, own).mean() >= 0.85
        assert gate.passes(fits, other).mean() <= 0.05

    @pytest.mark.parametrize("text", ["", BLOCK, RING, "sing a song"])
    def test_out_of_distribution_ones_pass_under_none(
        self, network: Qwen3VLNetwork, gate: DomainGate, text: str
    ) -> None:
        assert gate.passes(gate.fits(features(network, "other")), text).mean() <= 0.05

    def test_blank_and_noisy_images_are_refused(self, network: Qwen3VLNetwork, gate: DomainGate) -> None:
        rng = np.random.default_rng(0)
        base = scenes.trained(rng)
        corrupted = [CORRUPTIONS[kind](base, base, rng) for kind in ("blank", "noise") for _ in range(10)]
        assert gate.passes(gate.fits(image_features(network, corrupted))).mean() <= 0.1

    def test_few_held_out_images_are_refused_and_the_facts_say_how_many(self, gate: DomainGate) -> None:
        assert 0 <= gate.facts["refused_of_kept_apart"] <= 0.06
        assert gate.facts["kept_apart"] == 24 * (1 + CONFIG.n_augmentations)

    def test_what_is_near_no_trained_image_is_refused_whatever_the_log_odds_say(
        self, network: Qwen3VLNetwork, gate: DomainGate
    ) -> None:
        shown = features(network, "trained")
        lost = replace(gate, bank=-gate.bank)
        assert gate.passes(gate.fits(shown)).mean() >= 0.85
        assert not lost.passes(lost.fits(shown)).any()

    def test_the_same_seed_makes_the_same_gate(self, network: Qwen3VLNetwork, gate: DomainGate) -> None:
        again = trained_gate(network)
        np.testing.assert_array_equal(again.thresholds, gate.thresholds)
        np.testing.assert_array_equal(again.first, gate.first)
        assert again.words == gate.words

    def test_log_odds_are_those_of_the_plain_formula(self, network: Qwen3VLNetwork, gate: DomainGate) -> None:
        import torch

        shown = features(network, "trained")
        x = torch.from_numpy(gate.components(shown))
        hidden = torch.nn.functional.gelu(
            x @ torch.from_numpy(gate.first) + torch.from_numpy(gate.first_bias), approximate="tanh"
        )
        chances = torch.softmax(hidden @ torch.from_numpy(gate.last) + torch.from_numpy(gate.last_bias), 1)
        result = torch.logit(chances.double())[:, : len(gate)]
        np.testing.assert_allclose(gate.measures(shown)[0], result.numpy(), atol=2e-2)

    def test_too_few_scenes_make_no_gate(self, network: Qwen3VLNetwork) -> None:
        with pytest.raises(OptionError, match="at least 4 scenes"):
            train_gate(network, scenes.images("trained", 3), scenes.images("other", 5))


class TestWords:
    def test_an_instruction_names_its_scene_in_trained_and_in_new_words(self, gate: DomainGate) -> None:
        block, ring = gate.named_scenes(BLOCK), gate.named_scenes(RING)
        assert (block.sum(), ring.sum()) == (1, 1)
        assert not (block & ring).any()
        np.testing.assert_array_equal(gate.named_scenes("Shove that cube!"), block)
        np.testing.assert_array_equal(gate.named_scenes("the ring should hang"), ring)

    def test_a_text_with_none_of_its_words_leaves_all_scenes(self, gate: DomainGate) -> None:
        assert gate.named_scenes("make coffee").all()
        assert gate.named_scenes("").all()

    def test_words_of_the_judges_own_prompts_name_nothing(self, gate: DomainGate) -> None:
        assert not {"the", "a", "robot", "video"} & set(gate.words)

    def test_a_word_of_many_scenes_does_not_outweigh_one_of_few(self) -> None:
        words = scene_words(["lift the cup", "lift the plate", "lift the lid"], {}, [0, 1, 2])
        assert words == {"cup": [0], "lid": [2], "lift": [0, 1, 2], "plate": [1]}


class TestScenesThatTasksShare:
    def test_tasks_taken_for_each_other_are_one_and_others_stay(self) -> None:
        """Four tasks; the images of the third and fourth are the same."""
        rng = np.random.default_rng(0)
        numbers = np.repeat(np.arange(4), 40)
        centres = np.repeat(np.eye(3, dtype=np.float32)[[0, 1, 2, 2]] * 6, 8, axis=1)
        drawn = (centres[numbers] + rng.normal(0, 0.5, (160, 24))).astype(np.float32)
        samples = Samples(drawn, numbers, np.ones(160))
        fitted = fit_network(fit_components(drawn, 24, 24), samples, GateConfig(hidden_dim=32, steps=300))
        assert shared_scenes(fitted, samples, 0.05) == [0, 1, 2, 2]


class TestFiles:
    def test_a_saved_gate_decides_as_before(
        self, network: Qwen3VLNetwork, gate: DomainGate, tmp_path: Path
    ) -> None:
        save_gate(gate, tmp_path / GATE_FILE)
        read = load_gate(tmp_path / GATE_FILE)
        assert (read.facts, read.words, read.usual) == (gate.facts, gate.words, gate.usual)
        for kind in ("trained", "ring"):
            fits, again = (one.fits(features(network, kind)) for one in (gate, read))
            # float16 may turn a borderline one.
            assert np.mean(read.passes(again, BLOCK) == gate.passes(fits, BLOCK)) >= 0.96
            assert np.abs(fits - again).max() < 0.1

    def test_the_digest_tells_gates_apart(self, gate: DomainGate, tmp_path: Path) -> None:
        assert gate_digest(tmp_path) is None
        save_gate(gate, tmp_path / GATE_FILE)
        first = gate_digest(tmp_path)
        save_gate(replace(gate, thresholds=gate.thresholds + 1), tmp_path / GATE_FILE)
        assert None not in (first, gate_digest(tmp_path))
        assert first != gate_digest(tmp_path)

    def test_a_missing_gate_names_the_command_that_makes_it(self, tmp_path: Path) -> None:
        with pytest.raises(ModelError, match=re.escape("python -m stepscore.training.embedded gate")):
            load_gate(tmp_path / GATE_FILE)

    def test_another_file_is_refused(self, tmp_path: Path) -> None:
        (tmp_path / GATE_FILE).write_bytes(b"no gate at all")
        with pytest.raises(ModelError, match="is not a gate"):
            load_gate(tmp_path / GATE_FILE)


class TestWhichImagesDecide:
    def test_a_video_is_decided_by_its_first_frame_alone(self) -> None:
        video = DecodedMedia(tiny.clip(5), True)
        request = ScorePrefixes(video, (2, 5), tiny.statements(), tiny.CANDIDATES)
        (image,) = decisive_images(request)
        np.testing.assert_array_equal(image, video.clip.frames[0])

    def test_of_a_conversation_every_image_counts(self) -> None:
        stills = tuple(DecodedMedia(tiny.clip(1, seed=seed)) for seed in range(3))
        prompt = Prompt((Turn("user", ("Look: ", *stills, " Is it open?")),))
        for request in (Generate(prompt), Score(prompt, (" Yes", " No"))):
            assert len(decisive_images(request)) == 3
            assert " ".join(request.words()).split() == ["Look:", "Is", "it", "open?"]

    def test_the_words_of_a_video_stand_after_it(self) -> None:
        request = ScorePrefixes(
            DecodedMedia(tiny.clip(5), True), (2, 5), tiny.prompts("open it", "close it"), tiny.CANDIDATES
        )
        assert " ".join(request.words()).endswith("open it close it")


class TestImages:
    @pytest.mark.parametrize("kind", CORRUPTIONS)
    def test_a_corrupted_image_is_another_image_of_the_same_size(self, kind: str) -> None:
        rng = np.random.default_rng(3)
        image, other = scenes.trained(rng), scenes.other(rng)
        before = image.copy()
        corrupted = [CORRUPTIONS[kind](image, other, rng) for _ in range(8)]
        assert all(one.shape == image.shape and one.dtype == np.uint8 for one in corrupted)
        assert any(np.mean(one != image) > 0.02 for one in corrupted)
        np.testing.assert_array_equal(image, before)

    def test_augmentation_and_corruption_depend_on_the_seed_alone(self) -> None:
        image, other = (scenes.trained(np.random.default_rng(seed)) for seed in (1, 2))
        for make in (lambda rng: augment_image(image, rng), lambda rng: corrupt_image(image, other, rng)):
            np.testing.assert_array_equal(make(np.random.default_rng(5)), make(np.random.default_rng(5)))


class TestEvaluation:
    def test_it_counts_by_perturbation_and_by_kind_and_adds_up(
        self, network: Qwen3VLNetwork, gate: DomainGate
    ) -> None:
        queries = [GateQuery(i.pixels, (BLOCK, "shove it")) for i in scenes.images("trained", 12, seed=5)]
        rooms = [image.pixels for image in scenes.images("other", 8, seed=6)]
        rows = evaluate_gate(gate, network, queries, {"rooms": rooms}, [BLOCK, RING], n_corrupted=4)
        own = [row for row in rows if row.side == IN_DISTRIBUTION]
        assert [row.kind for row in own] == [*PERTURBATIONS, "all"]
        assert own[-1].n == 2 * 12 * len(PERTURBATIONS)
        assert own[-1].refused == sum(row.refused for row in own[:-1])
        strange = next(row for row in rows if row.kind == "rooms")
        assert strange.n == 8 * min(TEXTS_PER_OOD_FRAME, 2)
        assert strange.refused >= 15

    def test_a_share_has_its_wilson_interval(self) -> None:
        row = Refusals(OUT_OF_DISTRIBUTION, "rooms", 8, 10).row()
        assert (row["share"], round(float(str(row["lo"])), 3), round(float(str(row["hi"])), 3)) == (
            0.8,
            0.49,
            0.943,
        )
