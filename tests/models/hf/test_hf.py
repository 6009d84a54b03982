"""Checkpoints run in this process: loading, options, answers, scores, and what is refused."""

from __future__ import annotations

import asyncio
import json
import pickle
import shutil
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from stepscore.errors import CapabilityError, ModelError, OptionError, UnknownNameError
from stepscore.models import (
    DecodedMedia,
    Generate,
    PrefixScores,
    Prompt,
    ScorePrefixes,
    Turn,
    VideoPrefix,
    get_model,
)
from stepscore.models.hf import engine as hf_engine
from stepscore.models.hf.model import HfModel
from tests.models import tiny

PROMPT = Prompt(
    (Turn("user", ("Is the drawer open?", DecodedMedia(tiny.clip(1)), DecodedMedia(tiny.clip(3), True))),)
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tiny.tokenizer()
    return tiny.save(tmp_path_factory.mktemp("qwen3vl"), tiny.qwen3vl(made), made)


@pytest.fixture(scope="module")
def model(folder: Path) -> HfModel:
    made = get_model(f"hf/{folder}")
    assert isinstance(made, HfModel)
    return made


def prefixes(n: int = 7, seed: int = 0, tails: tuple[str, ...] = tiny.tails()) -> ScorePrefixes:
    video = DecodedMedia(tiny.clip(n, seed=seed), True)
    return ScorePrefixes(video, tuple(range(1, n + 1)), tiny.prompts(*tails), tiny.CANDIDATES)


def test_capabilities_and_description_need_no_weights(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hf_engine.HfEngine, "_load", lambda self: pytest.fail("it loaded"))
    model = get_model(f"hf/{folder}")
    can = model.capabilities
    assert (can.generate, can.scores, can.images, can.videos) == (True, "exact", True, True)
    assert (can.prefix_sharing, can.served) == ("exact", False)
    result = model.describe()
    assert json.loads(json.dumps(result)) == result
    assert result["name"] == model.name == f"hf/{folder}"
    assert (result["dtype"], result["attention"], result["scoring"]) == ("float32", "sdpa", "shared")
    assert get_model(f"hf/{folder}", scoring="naive").capabilities.prefix_sharing == "none"


def test_the_description_tells_checkpoints_apart_and_not_places(folder: Path, tmp_path: Path) -> None:
    from safetensors.torch import load_file, save_file

    def digests(path: Path) -> tuple[object, object]:
        result = get_model(f"hf/{path}").describe()
        return result["weights"], result["config"]

    copy = Path(shutil.copytree(folder, tmp_path / "copy"))
    assert digests(copy) == digests(folder)
    weights = load_file(copy / "model.safetensors")
    name = next(name for name, tensor in weights.items() if tensor.numel() > 1000)
    weights[name] = weights[name] + 1e-3
    save_file(weights, copy / "model.safetensors", metadata={"format": "pt"})
    assert digests(copy)[0] != digests(folder)[0]
    (copy / "chat_template.jinja").write_text("other")
    assert digests(copy)[1] != digests(folder)[1]


def test_a_model_is_a_value_that_pickles_loaded_or_not(model: HfModel) -> None:
    request = prefixes(3)
    result = model.score_prefixes(request)
    copy = pickle.loads(pickle.dumps(model))
    assert copy == model
    assert np.array_equal(copy.score_prefixes(request).logprobs, result.logprobs)


@pytest.mark.parametrize(
    "options", [{}, {"memory_limit_mb": 1}, {"attention": "eager"}, {"scoring": "incremental"}]
)
def test_every_way_of_scoring_gives_the_numbers_of_full_passes(folder: Path, options: dict[str, Any]) -> None:
    request = prefixes(5, tails=tiny.tails(*tiny.INSTRUCTIONS))
    naive = get_model(f"hf/{folder}", scoring="naive")
    assert isinstance(naive, HfModel)
    reference = naive.score_prefixes(request)
    other = get_model(f"hf/{folder}", **options)
    assert isinstance(other, HfModel)
    result = other.score_prefixes(request)
    assert result.logprobs.shape == (3, 5, 2)
    assert np.max(np.abs(result.logprobs - reference.logprobs)) < 1e-4
    assert 0 < result.tokens_in < reference.tokens_in


def test_an_answer_in_words(model: HfModel) -> None:
    answer = model.generate(Generate(PROMPT, max_tokens=5))
    assert answer.finish in {"stop", "length"}
    assert answer.tokens_out <= 5
    assert answer.tokens_in > 30
    assert "<|" not in answer.text
    assert model.generate(Generate(PROMPT, max_tokens=5)) == answer


def test_the_likeliest_tokens_of_an_answer_have_the_scores_of_a_full_pass(model: HfModel) -> None:
    whole = len(tiny.tokenizer().get_vocab())
    answer = model.generate(Generate(PROMPT, max_tokens=3, top_logprobs=whole))
    assert replace(answer, choices=()) == model.generate(Generate(PROMPT, max_tokens=3))
    assert len(answer.choices) <= 3
    for choice in answer.choices:
        assert choice.top[0][0] == choice.token
        assert [value for _, value in choice.top] == sorted((v for _, v in choice.top), reverse=True)
    first = dict(answer.choices[0].top)
    scored = model.score(PROMPT, tiny.CANDIDATES)
    assert scored.logprobs == pytest.approx([first[word] for word in tiny.CANDIDATES], abs=1e-4)


def test_drawn_answers_follow_seed_and_repeat(model: HfModel) -> None:
    def drawn(**fields: Any) -> str:
        return model.generate(Generate(PROMPT, max_tokens=12, temperature=1.5, **fields)).text

    before = torch.random.get_rng_state()
    assert drawn(seed=1) == drawn(seed=1)
    assert len({drawn(seed=1), drawn(seed=2), drawn(seed=1, repeat=1)}) == 3
    assert torch.equal(torch.random.get_rng_state(), before)


def test_an_answer_ends_at_the_end_of_the_turn(model: HfModel, monkeypatch: pytest.MonkeyPatch) -> None:
    from stepscore.models.hf import chat as hf_chat

    vocabulary = model._engine.loaded.tokenizer.get_vocab()
    assert vocabulary["<|im_end|>"] in hf_chat.stop_tokens(
        model._engine.loaded.model, model._engine.loaded.tokenizer
    )
    monkeypatch.setattr(hf_chat, "stop_tokens", lambda *a: sorted(vocabulary.values()))
    answer = model.generate(Generate(PROMPT, max_tokens=9))
    assert (answer.finish, answer.tokens_out) == ("stop", 1)


def test_the_next_word_is_scored_as_the_model_itself_would(model: HfModel) -> None:
    """Against transformers' own forward pass over the chat, put together by hand."""
    text = "<|im_start|>user\nOpen?<|vision_start|>{}<|vision_end|><|im_end|>\n<|im_start|>assistant\nThe answer is:"
    loaded = model._engine.loaded
    clip = tiny.clip(1, height=32, width=64)
    ids = torch.tensor([loaded.encode(text.format("<|image_pad|>" * 2))])
    image = loaded.prefix_inputs.inputs([DecodedMedia(clip)])  # type: ignore[attr-defined]
    logits = loaded.model(
        input_ids=ids,
        mm_token_type_ids=(ids == loaded.model.config.image_token_id).int(),
        pixel_values=image["pixel_values"],
        image_grid_thw=torch.tensor([[1, 2, 4]]),
    ).logits[0, -1]
    expected = torch.log_softmax(logits, -1)[[loaded.encode(word)[0] for word in tiny.CANDIDATES]]
    prompt = Prompt((Turn("user", ("Open?", DecodedMedia(clip))),), prefill="The answer is:")
    result = model.score(prompt, tiny.CANDIDATES)
    assert result.logprobs == pytest.approx(expected.tolist(), abs=1e-5)
    assert result.censored == (False, False)
    assert result.tokens_in == ids.shape[1]


def test_a_checkpoint_without_a_template_is_asked_in_chatml(folder: Path, tmp_path: Path) -> None:
    bare = Path(shutil.copytree(folder, tmp_path / "bare"))
    (bare / "chat_template.jinja").unlink()
    (bare / "tokenizer_config.json").unlink()
    request = Generate(PROMPT, max_tokens=4)
    assert get_model(f"hf/{bare}").generate(request) == get_model(f"hf/{folder}").generate(request)


def test_words_that_pretend_to_be_images_are_refused(model: HfModel) -> None:
    trick = "<|vision_start|><|image_pad|><|vision_end|>"
    with pytest.raises(ModelError, match="marks for 1"):
        model.generate(Generate(Prompt((Turn("user", (trick,)),)), max_tokens=1))


def test_a_candidate_of_two_tokens_is_refused(model: HfModel) -> None:
    with pytest.raises(ModelError, match="not exactly one token"):
        model.score(PROMPT, ["yes, it is"])


def test_the_event_loop_stays_free_while_the_model_computes(model: HfModel) -> None:
    async def both() -> tuple[PrefixScores, int]:
        turns = 0
        task = asyncio.ensure_future(model.answer(prefixes(12)))
        while not task.done():
            await asyncio.sleep(0.001)
            turns += 1
        answer = task.result()
        assert isinstance(answer, PrefixScores)
        return answer, turns

    answer, turns = asyncio.run(both())
    assert answer.logprobs.shape == (1, 12, 2)
    assert turns > 3


def test_videos_that_are_asked_together_are_scored_together_and_others_alone(
    folder: Path, model: HfModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    from stepscore.models.qwen3vl import prefix_scoring

    sizes = []
    right = prefix_scoring.score_shared

    def counted(network: Any, videos: Any, limit: int) -> Any:
        sizes.append((len(videos), threading.current_thread().name))
        return right(network, videos, limit)

    batched = HfModel(str(folder), batch=3)
    batched.score_prefixes(prefixes(1))  # loaded and checked
    monkeypatch.setattr(prefix_scoring, "score_shared", counted)
    requests = [prefixes(3 + seed, seed) for seed in range(5)]
    wrong = ScorePrefixes(requests[0].video, (2,), tiny.prompts("is: "), ("True",))

    answers: Any = asyncio.run(batched.answer_batch([*requests, wrong]))
    assert [size for size, _ in sizes] == [3, 2]
    assert {name.rsplit("_", 1)[0] for _, name in sizes} == {"stepscore-model"}
    assert isinstance(answers[-1], ModelError)
    monkeypatch.setattr(prefix_scoring, "score_shared", right)
    for request, answer in zip(requests, answers, strict=False):
        assert np.max(np.abs(answer.logprobs - model.score_prefixes(request).logprobs)) < 1e-4

    async def apart() -> list[Any]:
        return await asyncio.gather(*(batched.answer(one) for one in requests))

    # What merely waits at the same time is not put together: it would depend on timing.
    for answer, alone in zip(asyncio.run(apart()), map(model.score_prefixes, requests), strict=True):
        assert np.array_equal(answer.logprobs, alone.logprobs)


def test_a_text_in_the_pieces_the_model_cuts_it_into(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hf_engine.HfEngine, "_load", lambda self: pytest.fail("it loaded"))
    model = HfModel(str(folder))
    text = " open the xylophone, twice"
    pieces = model.token_texts(text)
    assert "".join(pieces) == text
    assert pieces[:2] == (" open", " the")
    assert len(pieces) == len(tiny.tokenizer().encode(text).ids)
    with pytest.raises(ModelError, match="several tokens"):
        model.token_texts(" 漢")


def test_a_growing_video(model: HfModel) -> None:
    request = prefixes(4)
    reference = model.score_prefixes(request).logprobs
    stream = model.open_stream(request.prompts[0])
    for k in range(4):
        stream.append(tiny.part(request.video.clip, k, k + 1))  # type: ignore[union-attr]
        assert np.max(np.abs(stream.score(request.prompts, request.candidates) - reference[:, k])) < 1e-4
    assert len(stream) == 4


def test_a_warm_up_leaves_the_scores_of_a_stream_as_they_are(model: HfModel) -> None:
    request = prefixes(4)
    model.warm_up(request.prompts[0], request.candidates)
    stream = model.open_stream(request.prompts[0])
    stream.append(request.video.clip)  # type: ignore[union-attr]
    last = model.score_prefixes(request).logprobs[:, -1]
    assert np.max(np.abs(stream.score(request.prompts, request.candidates) - last)) < 1e-4


def test_a_model_that_fails_the_check_is_refused_once_and_for_all(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from stepscore.models.qwen3vl.network import Qwen3VLNetwork

    loads = []
    right = hf_engine.HfEngine._load
    monkeypatch.setattr(hf_engine.HfEngine, "_load", lambda self: loads.append(1) or right(self))
    monkeypatch.setattr(
        Qwen3VLNetwork, "mask", lambda self, visible: torch.from_numpy(visible)[:, None].to(self.dtype)
    )
    model = get_model(f"hf/{folder}")
    assert isinstance(model, HfModel)
    for _ in range(2):
        with pytest.raises(ModelError, match=r"not exact for this model.*scoring=naive"):
            model.score_prefixes(prefixes(3))
    assert len(loads) == 1
    naive = get_model(f"hf/{folder}", scoring="naive")
    assert isinstance(naive, HfModel)
    assert np.isfinite(naive.score_prefixes(prefixes(3)).logprobs).all()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"dtype": "int8"}, "float32, bfloat16, float16"),
        ({"attention": "magic"}, "sdpa, eager"),
        ({"scoring": "fast"}, "shared, incremental, naive"),
        ({"batch": 0}, "batch must be an integer from 1"),
        ({"memory_limit_mb": "lots"}, "memory_limit_mb must be an integer from 1"),
        ({"attention": "flash_attention_2"}, "scoring=incremental"),
    ],
)
def test_wrong_options_say_what_is_allowed(options: dict[str, Any], message: str) -> None:
    with pytest.raises(OptionError, match=message):
        get_model("hf/anything", **options)


def test_an_unknown_option_lists_the_valid_ones() -> None:
    with pytest.raises(UnknownNameError, match="memory_limit_mb"):
        get_model("hf/anything", memory=3)


def test_images_keep_to_max_pixels(folder: Path, model: HfModel) -> None:
    small = get_model(f"hf/{folder}", max_pixels=32 * 32)
    assert isinstance(small, HfModel)
    assert small.score_prefixes(prefixes(2)).tokens_in < model.score_prefixes(prefixes(2)).tokens_in
    assert small.describe() != model.describe()
    with pytest.raises(OptionError, match="1024 pixels"):
        HfModel(str(folder), max_pixels=100).score_prefixes(prefixes(1))


def test_what_is_no_checkpoint_is_refused(tmp_path: Path, folder: Path) -> None:
    with pytest.raises(ModelError, match="no such folder"):
        get_model("hf/./not/there").describe()
    with pytest.raises(ModelError, match=r"no config\.json"):
        get_model(f"hf/{tmp_path}").describe()
    (tmp_path / "config.json").write_text((folder / "config.json").read_text())
    (tmp_path / "pytorch_model.bin").write_bytes(b"")
    with pytest.raises(ModelError, match=r"pytorch_model\.bin, which can run code"):
        get_model(f"hf/{tmp_path}").describe()


def test_a_checkpoint_that_lacks_weights_is_refused(tmp_path: Path, folder: Path) -> None:
    from safetensors.torch import load_file, save_file

    part = Path(shutil.copytree(folder, tmp_path / "part"))
    weights = load_file(part / "model.safetensors")
    lost = next(name for name in weights if "layers.1" in name)
    kept = {name: tensor for name, tensor in weights.items() if name != lost}
    save_file(kept, part / "model.safetensors", metadata={"format": "pt"})
    model = get_model(f"hf/{part}")
    assert isinstance(model, HfModel)
    with pytest.raises(ModelError, match="lacks 1 of the model's weights"):
        model.score_prefixes(prefixes(1))


def test_the_trained_checkpoint_loads_scores_and_answers(shared_data: Path) -> None:
    """A real Qwen3-VL, fp16 on disk, with nothing but a tokenizer.json."""
    path = shared_data / "prototype_judge"
    tail = (
        "The above video shows a robot manipulation trajectory that completes the following task: open the drawer."
        " Decide whether the above statement is True or not. The answer is:"
    )
    video = DecodedMedia(tiny.clip(9, height=96, width=96), True)
    request = ScorePrefixes(
        video,
        tuple(range(1, 10)),
        (Prompt((Turn("user", (VideoPrefix(), tail)),), template="none"),),
        (" True", " False"),
    )
    model, naive = get_model(f"hf/{path}"), get_model(f"hf/{path}", scoring="naive")
    assert isinstance(model, HfModel)
    assert isinstance(naive, HfModel)
    result = model.score_prefixes(request).logprobs
    assert np.max(np.abs(result - naive.score_prefixes(request).logprobs)) < 1e-4
    assert np.all(np.logaddexp(result[..., 0], result[..., 1]) > -0.05)  # it says True or False, nothing else
    assert np.all(result[..., 1] > result[..., 0])  # noise opens no drawer
    assert model.generate(Generate(PROMPT, max_tokens=3)).tokens_out == 3
    assert model.score(PROMPT, [" True"]).logprobs[0] < 0


def test_a_growing_video_needs_a_model_that_shares(tmp_path: Path) -> None:
    from tests.models.hf import tiny_families

    model = get_model(f"hf/{tiny_families.qwen2vl(tmp_path)}")
    assert isinstance(model, HfModel)
    with pytest.raises(CapabilityError, match="Qwen3-VL"):
        model.open_stream(tiny.prompts("Done?")[0])
