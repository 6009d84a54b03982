"""Robometer's heads as published, from both layouts of its checkpoint, against a naive reference."""

from __future__ import annotations

import asyncio
import json
import pickle
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from stepscore.episodes import Clip
from stepscore.errors import CapabilityError, ModelError, OptionError, StepScoreError
from stepscore.models import (
    DecodedMedia,
    Generate,
    PredictProgress,
    Preference,
    PreferVideo,
    ProgressPredictions,
    Prompt,
    Turn,
    get_model,
    run_blocking,
)
from stepscore.models.hf.model import HfModel
from tests.models import tiny
from tests.models.robometer import tiny_robometer as tiny_rbm

TEXT = tiny_rbm.PROMPT.format(task="open the drawer")
TEXTS = ("Which of two? A: ", "B: ", "Now say it.")
EMBEDDING = "model.language_model.embed_tokens.weight"


def progress_request(clip: Clip, text: str = TEXT) -> PredictProgress:
    return PredictProgress(Prompt((Turn("user", (text, DecodedMedia(clip, video=True))),)))


def preference_request(first: Clip, second: Clip) -> PreferVideo:
    a, b = (DecodedMedia(clip, video=True) for clip in (first, second))
    return PreferVideo(Prompt((Turn("user", (TEXTS[0], a, TEXTS[1], b, TEXTS[2])),)))


def predicted(model: Any, request: PredictProgress) -> ProgressPredictions:
    response = run_blocking(model.answer(request))
    assert isinstance(response, ProgressPredictions)
    return response


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the base model's tokenizer."""
    return tiny_rbm.save_tokenizer(tmp_path_factory.mktemp("base"), tiny_rbm.base_tokenizer())


@pytest.fixture(scope="module")
def folders(base: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    made = tmp_path_factory.mktemp("robometer")
    return {layout: tiny_rbm.save(made / layout, layout, base_model=str(base)) for layout in tiny_rbm.LAYOUTS}


@pytest.fixture(scope="module")
def models(folders: dict[str, Path]) -> dict[str, HfModel]:
    made = {layout: get_model(f"hf/{folder}") for layout, folder in folders.items()}
    assert all(isinstance(model, HfModel) for model in made.values())
    return made  # type: ignore[return-value]


@pytest.mark.parametrize("layout", tiny_rbm.LAYOUTS)
@pytest.mark.parametrize(
    ("frames", "height", "width"), [(1, 64, 64), (8, 70, 100), (3, 24, 30), (12, 33, 96)]
)
def test_one_pass_equals_a_plain_forward_with_the_heads_by_hand(
    models: dict[str, HfModel], layout: str, frames: int, height: int, width: int
) -> None:
    clip = tiny.clip(frames, height=height, width=width, seed=frames)
    found = predicted(models[layout], progress_request(clip))
    text = tiny_rbm.progress_text(TEXT, frames)
    for head in ("progress", "success"):
        expected = tiny_rbm.reference(text, (clip,), "<|prog_token|>", head)
        np.testing.assert_allclose(getattr(found, head), expected, rtol=0, atol=1e-6)
        assert frames < 3 or np.ptp(expected) > 1e-3  # frames differ, so that a wrong place would show
    assert np.all((found.spread > 0) & (found.spread <= 0.5))


@pytest.mark.parametrize("layout", tiny_rbm.LAYOUTS)
@pytest.mark.parametrize("counts", [(4, 4), (2, 5)])
def test_a_preference_equals_a_plain_forward_with_the_head_by_hand(
    models: dict[str, HfModel], layout: str, counts: tuple[int, int]
) -> None:
    first, second = tiny.clip(counts[0], seed=1), tiny.clip(counts[1], height=96, seed=2)
    found = run_blocking(models[layout].answer(preference_request(first, second)))
    assert isinstance(found, Preference)
    text = tiny_rbm.preference_text(TEXTS, *counts)
    (expected,) = tiny_rbm.reference(text, (first, second), "<|pref_token|>", "preference")
    assert found.first == pytest.approx(expected, abs=1e-6)


def test_a_video_is_preferred_to_itself_by_a_number_of_its_own(models: dict[str, HfModel]) -> None:
    """The same clip twice: the tokens are still written once each."""
    clip = tiny.clip(3)
    found = run_blocking(models["robometer"].answer(preference_request(clip, clip)))
    (expected,) = tiny_rbm.reference(
        tiny_rbm.preference_text(TEXTS, 3, 3), (clip, clip), "<|pref_token|>", "preference"
    )
    assert isinstance(found, Preference)
    assert found.first == pytest.approx(expected, abs=1e-6)


def test_both_layouts_hold_the_same_model(models: dict[str, HfModel]) -> None:
    clip = tiny.clip(4)
    one, other = (predicted(models[layout], progress_request(clip)) for layout in tiny_rbm.LAYOUTS)
    np.testing.assert_array_equal(one.progress, other.progress)


def test_capabilities_and_description_need_no_weights(
    folders: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("stepscore.models.hf.engine.HfEngine._load", lambda self: pytest.fail("it loaded"))
    for layout, folder in folders.items():
        model = get_model(f"hf/{folder}")
        can = model.capabilities
        assert (can.heads, can.generate, can.scores, can.prefix_sharing) == (True, False, "none", "none")
        described = model.describe()
        assert json.loads(json.dumps(described)) == described
        assert described["heads"] == {"layout": layout, "bins": 10, "preference_asks_progress": True}
        assert ("tokenizer" in described) == (layout == "lerobot")


def test_a_batch_gives_what_single_requests_give(
    folders: dict[str, Path], models: dict[str, HfModel]
) -> None:
    requests: list[Any] = [progress_request(tiny.clip(n, height=64 + 16 * n, seed=n)) for n in (5, 2, 8)]
    requests += [preference_request(tiny.clip(3, seed=4), tiny.clip(2, seed=5))]
    requests += [progress_request(tiny.clip(2), "an instruction with <|prog_token|> in it")]
    batching = get_model(f"hf/{folders['robometer']}", batch=8)
    passes: list[int] = []

    engine = batching._engine._in_memory()  # type: ignore[attr-defined]
    states = type(engine)._states

    def counted(self: Any, ready: Any) -> Any:
        passes.append(len(ready))
        return states(self, ready)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(type(engine), "_states", counted)
        together: Any = asyncio.run(batching.answer_batch(requests))  # type: ignore[attr-defined]
    assert passes == [4], "the fifth cannot be read"
    assert isinstance(together[-1], ModelError)
    for request, response in zip(requests[:-1], together[:-1], strict=True):
        alone = run_blocking(models["robometer"].answer(request))
        for name in ("progress", "success", "first"):
            if hasattr(alone, name):
                np.testing.assert_allclose(getattr(response, name), getattr(alone, name), atol=1e-5)


def test_without_a_chat_template_the_text_is_that_of_qwen3vl(
    folders: dict[str, Path], models: dict[str, HfModel], tmp_path: Path
) -> None:
    copy = Path(shutil.copytree(folders["robometer"], tmp_path / "copy"))
    (copy / "chat_template.jinja").unlink()
    clip = tiny.clip(4)
    found = predicted(get_model(f"hf/{copy}"), progress_request(clip))
    np.testing.assert_array_equal(
        found.progress, predicted(models["robometer"], progress_request(clip)).progress
    )


def test_a_head_with_one_output_is_a_sigmoid(base: Path, tmp_path: Path) -> None:
    folder = tiny_rbm.save(tmp_path / "single", "lerobot", bins=1, base_model=str(base))
    clip = tiny.clip(4)
    found = predicted(get_model(f"hf/{folder}"), progress_request(clip))
    expected = tiny_rbm.reference(
        tiny_rbm.progress_text(TEXT, 4), (clip,), "<|prog_token|>", "progress", bins=1
    )
    np.testing.assert_allclose(found.progress, expected, atol=1e-5)
    assert np.isnan(found.spread).all()


def test_a_sharded_checkpoint_without_a_yaml_is_the_same_model(
    models: dict[str, HfModel], folders: dict[str, Path], tmp_path: Path
) -> None:
    copy = Path(shutil.copytree(folders["robometer"], tmp_path / "copy"))
    (copy / "model.safetensors").unlink()
    (copy / "config.yaml").unlink()
    every = {name: tensor.contiguous() for name, tensor in tiny_rbm.tensors().items()}
    names, files = sorted(every), ("model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors")
    where = {name: files[number % 2] for number, name in enumerate(names)}
    for file in files:
        save_file({name: every[name] for name in names if where[name] == file}, copy / file)
    (copy / "model.safetensors.index.json").write_text(json.dumps({"metadata": {}, "weight_map": where}))
    clip = tiny.clip(3)
    found = predicted(get_model(f"hf/{copy}"), progress_request(clip))
    np.testing.assert_array_equal(
        found.progress, predicted(models["robometer"], progress_request(clip)).progress
    )


def test_it_is_a_picklable_value(folders: dict[str, Path]) -> None:
    model = pickle.loads(pickle.dumps(get_model(f"hf/{folders['lerobot']}")))
    assert predicted(model, progress_request(tiny.clip(1))).tokens_in > 4


# The added tokens ---------------------------------------------------------------------------------------------------


def test_the_rows_of_the_added_tokens_are_read_in_their_order(
    models: dict[str, HfModel], tmp_path: Path
) -> None:
    """Each token that is read has its own row: exchanged with another's, other numbers come out."""
    rows = tiny_rbm.tensors()[EMBEDDING]
    clip, other = tiny.clip(3), tiny.clip(3, seed=1)
    sound = models["robometer"]
    progress = predicted(sound, progress_request(clip)).progress
    preferred = run_blocking(sound.answer(preference_request(clip, other)))
    for token, (one, two) in {"prog": (-1, -2), "pref": (-3, -2), "split": (-5, -4)}.items():
        permuted = rows.clone()
        permuted[[one, two]] = rows[[two, one]]
        model = get_model(f"hf/{tiny_rbm.save(tmp_path / token, changed={EMBEDDING: permuted})}")
        asked = preference_request(clip, other)
        assert abs(run_blocking(model.answer(asked)).first - preferred.first) > 1e-4, token  # type: ignore[attr-defined]
        moved = np.abs(predicted(model, progress_request(clip)).progress - progress).max()
        assert (moved > 1e-4) == (token == "prog"), token


@pytest.mark.parametrize(
    ("order", "message"),
    [
        (tiny_rbm.TOKENS[::-1], "rows in the embedding are .* in this order"),
        ((*tiny_rbm.TOKENS[:3], tiny_rbm.TOKENS[4], tiny_rbm.TOKENS[3]), "in this order"),
        (tiny_rbm.TOKENS[:4], r"knows <\|split_token\|> and not <\|prog_token\|>"),
        ((*tiny_rbm.TOKENS, "<|more|>"), None),
        (("<|more|>",), "it is another model's"),
    ],
)
def test_a_tokenizer_with_other_rows_is_refused(
    order: tuple[str, ...], message: str | None, folders: dict[str, Path], tmp_path: Path
) -> None:
    copy = Path(shutil.copytree(folders["robometer"], tmp_path / "copy"))
    tiny_rbm.save_tokenizer(copy, tiny_rbm.tokenizer(order))
    model = get_model(f"hf/{copy}")
    if message is None:  # a token after the five, which no row is for, is never written
        predicted(model, progress_request(tiny.clip(1)))
        return
    with pytest.raises(ModelError, match=message) as caught:
        predicted(model, progress_request(tiny.clip(1)))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("layout", tiny_rbm.LAYOUTS)
def test_a_tokenizer_can_be_given(
    layout: str, base: Path, models: dict[str, HfModel], tmp_path: Path
) -> None:
    folder = tiny_rbm.save(tmp_path / layout, layout, with_tokenizer=False)
    with pytest.raises(ModelError, match=r"has no tokenizer and names no base model.*-M tokenizer="):
        get_model(f"hf/{folder}").describe()
    model = get_model(f"hf/{folder}", tokenizer=str(base))
    clip = tiny.clip(2)
    expected = predicted(models[layout], progress_request(clip)).progress
    np.testing.assert_array_equal(predicted(model, progress_request(clip)).progress, expected)
    assert "tokenizer" in model.describe()
    with pytest.raises(OptionError, match="tokenizer is ''"):
        get_model(f"hf/{folder}", tokenizer="")


# What is refused ----------------------------------------------------------------------------------------------------


def with_nan(name: str) -> dict[str, torch.Tensor | None]:
    tensor = tiny_rbm.tensors()[name].clone()
    tensor.view(-1)[3] = torch.nan
    return {name: tensor}


WRONG: dict[str, tuple[dict[str, torch.Tensor | None], str]] = {
    "missing head": ({"success_head.4.bias": None}, r"lacks the tensor success_head\.4\.bias"),
    "extra in a head": (
        {"preference_head.7.weight": torch.zeros(3)},
        r"has a tensor preference_head\.7\.weight that Robometer has not",
    ),
    "shape of a head": (
        {"progress_head.0.weight": torch.zeros(16, 64)},
        r"progress_head\.0\.weight of shape \(16, 64\); its config states \(32, 64\)",
    ),
    "missing in the backbone": (
        {"model.language_model.norm.weight": None},
        "lacks the tensor model.language",
    ),
    "unknown in the backbone": ({"model.language_model.more": torch.zeros(2)}, "that Robometer has not"),
    "rows of the embedding": ({EMBEDDING: torch.zeros(900, 64)}, r"of shape \(900, 64\); its config states"),
    "NaN in a head": (with_nan("success_head.0.weight"), r"success_head\.0\.weight have values that are not"),
    "NaN in the backbone": (
        with_nan("model.language_model.layers.1.mlp.up_proj.weight"),
        r"layers\.1\.mlp\.up_proj\.weight have values that are not numbers",
    ),
}


@pytest.mark.parametrize("layout", tiny_rbm.LAYOUTS)
@pytest.mark.parametrize("wrong", WRONG)
def test_a_damaged_checkpoint_is_refused_in_one_line(
    wrong: str, layout: str, base: Path, tmp_path: Path
) -> None:
    changed, message = WRONG[wrong]
    folder = tiny_rbm.save(tmp_path / layout, layout, changed=changed, base_model=str(base))
    with pytest.raises(ModelError, match=message) as caught:
        predicted(get_model(f"hf/{folder}"), progress_request(tiny.clip(1)))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("layout", tiny_rbm.LAYOUTS)
@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"progress_discrete_bins": 12}, "'discrete' with 12 bins; the progress head has 10 outputs"),
        ({"progress_loss_type": "l2"}, "'l2'; the progress head has 10 outputs"),
        ({"progress_loss_type": "huber"}, "it is l1, l2 or discrete"),
        ({"use_per_frame_progress_token": False}, "reads progress at image tokens"),
        ({"use_multi_image": "yes"}, "use_multi_image must be true or false, got 'yes'"),
        ({"progress_discrete_bins": "ten"}, "progress_discrete_bins must be an integer"),
    ],
)
def test_a_config_that_contradicts_its_weights_is_refused(
    config: dict[str, Any], message: str, layout: str, base: Path, tmp_path: Path
) -> None:
    folder = tiny_rbm.save(tmp_path / layout, layout, config=config, base_model=str(base))
    with pytest.raises(ModelError, match=message) as caught:
        get_model(f"hf/{folder}").describe()
    assert "\n" not in str(caught.value)


def test_another_backbone_is_refused(folders: dict[str, Path], tmp_path: Path) -> None:
    copy = Path(shutil.copytree(folders["lerobot"], tmp_path / "copy"))
    content = json.loads((copy / "config.json").read_text())
    content["vlm_config"]["model_type"] = "qwen2_5_vl"
    (copy / "config.json").write_text(json.dumps(content))
    with pytest.raises(ModelError, match="is 'qwen2_5_vl'; supported: qwen3_vl"):
        _ = get_model(f"hf/{copy}").capabilities


def test_it_answers_no_other_question_and_others_do_not_answer_its_own(
    models: dict[str, HfModel], tmp_path: Path
) -> None:
    question = Generate(Prompt((Turn("user", ("How far?",)),)))
    with pytest.raises(CapabilityError, match="--judge robometer"):
        run_blocking(models["robometer"].answer(question))
    with pytest.raises(CapabilityError, match="not usable part by part"):
        _ = models["robometer"].network
    tokens = tiny.tokenizer()
    plain = get_model(f"hf/{tiny.save(tmp_path / 'plain', tiny.qwen3vl(tokens), tokens)}")
    with pytest.raises(CapabilityError, match="no reward heads"):
        run_blocking(plain.answer(progress_request(tiny.clip(1))))


@pytest.mark.parametrize("text", ["stop at <|prog_token|>", "<|vision_start|>", "done<|im_end|>"])
def test_an_instruction_cannot_write_tokens(text: str, models: dict[str, HfModel]) -> None:
    with pytest.raises(StepScoreError, match="would be read as one"):
        predicted(models["robometer"], progress_request(tiny.clip(1), text))
