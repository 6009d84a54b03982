"""The NumPy runtime of ``embedded`` gives torch's numbers, on random networks and on the judge in the package."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from stepscore.episodes import open_episodes
from stepscore.errors import EpisodeError, ModelError, OptionError, UnknownNameError
from stepscore.models import (
    Answer,
    DecodedMedia,
    Generate,
    Model,
    PrefixScores,
    Prompt,
    Score,
    ScorePrefixes,
    Scores,
    Turn,
    get_model,
    run_blocking,
)
from stepscore.models.embedded.engine import one_blas_thread
from stepscore.models.embedded.model import FOLDER, EmbeddedModel, torch_network, trained_side
from stepscore.models.embedded.runtime.layers import gelu_erf, gelu_tanh
from stepscore.models.qwen3vl.vision_features import image_features
from stepscore.models.schemas import FreeText, Number, Word, Written
from tests.models import tiny

DEMO = Path(__file__).parents[3] / "src" / "stepscore" / "cli" / "demo_data"
NATS = 1e-4


@pytest.fixture(scope="module", params=["grouped heads", "the package's"])
def folder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    if request.param == "the package's":
        return FOLDER
    made = tiny.tokenizer()
    return tiny.save(tmp_path_factory.mktemp("tiny"), tiny.qwen3vl(made), made)


@pytest.fixture(scope="module")
def models(folder: Path) -> tuple[EmbeddedModel, Model]:
    """The same checkpoint in NumPy and in torch."""
    pixels = trained_side(folder) ** 2
    return EmbeddedModel(checkpoint=str(folder), gate=False), get_model(f"hf/{folder}", max_pixels=pixels)


def scored(model: Model, request: ScorePrefixes) -> PrefixScores:
    response = run_blocking(model.answer(request))
    assert isinstance(response, PrefixScores)
    return response


def prefixes(n: int, lengths: tuple[int, ...], height: int = 64, width: int = 64) -> ScorePrefixes:
    clip = tiny.clip(n, height=height, width=width, seed=n)
    return ScorePrefixes(
        DecodedMedia(clip, video=True), lengths, tiny.statements(*tiny.INSTRUCTIONS), tiny.CANDIDATES
    )


class TestPrefixes:
    @pytest.mark.parametrize(
        ("n", "lengths", "height", "width"),
        [
            (8, (2, 4, 8), 64, 64),
            (9, (1, 3, 9, 8, 3), 64, 64),
            (1, (1,), 32, 32),
            (40, (2, 20, 39, 40), 48, 96),
            (5, (5, 2), 224, 160),
        ],
    )
    def test_they_are_torchs(
        self,
        models: tuple[EmbeddedModel, Model],
        n: int,
        lengths: tuple[int, ...],
        height: int,
        width: int,
    ) -> None:
        request = prefixes(n, lengths, height, width)
        ours, torchs = (scored(model, request) for model in models)
        np.testing.assert_allclose(ours.logprobs, torchs.logprobs, atol=NATS)
        assert ours.tokens_in == torchs.tokens_in

    def test_many_texts_are_cut_into_passes_without_changing_a_number(
        self, models: tuple[EmbeddedModel, Model], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        request = prefixes(12, tuple(range(1, 13)))
        whole = scored(models[0], request).logprobs
        monkeypatch.setattr("stepscore.models.embedded.runtime.prefix_scoring.ROWS_PER_PASS", 40)
        np.testing.assert_allclose(scored(models[0], request).logprobs, whole, atol=1e-5)

    def test_another_question_about_the_last_video_reads_its_text_alone(
        self, models: tuple[EmbeddedModel, Model]
    ) -> None:
        first, other = tiny.statements("open the drawer"), tiny.statements("close the window")
        request = replace(prefixes(8, (2, 4, 8)), prompts=first)
        changed = prefixes(9, (2, 4, 8))
        fresh = {
            "first": scored(models[0], request),
            "video": scored(models[0], replace(changed, prompts=first)),
        }
        question = replace(request, prompts=other)
        for seed in range(20, 24):  # the few videos that are kept
            scored(models[0], prefixes(seed, (2, 4, 8)))
        alone = scored(models[0], question)
        scored(models[0], request)
        after = scored(models[0], question)
        assert np.array_equal(after.logprobs, alone.logprobs)
        assert after.tokens_in == alone.tokens_in, "what is kept of a call does not depend on the call before"
        assert alone.tokens_reused == 0
        assert 0 < after.tokens_reused < after.tokens_in
        # The video is compared by its pixels and times, not by its place in memory.
        assert np.array_equal(
            scored(models[0], replace(changed, prompts=first)).logprobs, fresh["video"].logprobs
        )
        assert np.array_equal(scored(models[0], request).logprobs, fresh["first"].logprobs)

    def test_a_stream_gives_the_whole_videos_scores(self, models: tuple[EmbeddedModel, Model]) -> None:
        lengths = (1, 2, 3, 6, 11)
        request = prefixes(11, lengths)
        assert isinstance(request.video, DecodedMedia)
        clip = request.video.clip
        expected = scored(models[0], request).logprobs
        stream = models[0].open_stream(request.prompts[0])
        at = 0
        for column, length in enumerate(lengths):
            stream.append(tiny.part(clip, at, length))
            at = length
            np.testing.assert_allclose(
                stream.score(request.prompts, request.candidates), expected[:, column], atol=NATS
            )
        with pytest.raises(EpisodeError, match="order of their timestamps"):
            stream.append(tiny.part(clip, 0, 2))
        with pytest.raises(OptionError, match="alike up to the video"):
            stream.score(
                [Prompt((Turn("user", ("a", *request.prompts[0].turns[0].parts)),), template="open")], "x"
            )

    def test_a_prompt_beyond_the_trained_positions_is_refused(
        self, models: tuple[EmbeddedModel, Model]
    ) -> None:
        long = prefixes(2400, (2400,), 32, 32)
        with pytest.raises(ModelError, match="the model was made for 4096"):
            scored(models[0], long)

    def test_a_candidate_of_two_tokens_is_refused(self, models: tuple[EmbeddedModel, Model]) -> None:
        clip = DecodedMedia(tiny.clip(2), video=True)
        with pytest.raises(ModelError, match="not exactly one token"):
            scored(models[0], ScorePrefixes(clip, (2,), tiny.statements(), (" True False",)))


class TestConversations:
    def prompt(self, seed: int) -> Prompt:
        clip = tiny.clip(5, height=96, width=64, seed=seed)
        still = DecodedMedia(tiny.part(tiny.clip(2, height=40, width=120, seed=seed + 1), 0, 1))
        parts = ("look at ", still, " and at ", DecodedMedia(clip, video=True), " then say: open the drawer")
        return Prompt((Turn("user", parts), Turn("assistant", ("yes",)), Turn("user", ("and now?",))))

    @pytest.mark.parametrize("seed", range(3))
    def test_greedy_texts_are_torchs(self, models: tuple[EmbeddedModel, Model], seed: int) -> None:
        request = Generate(self.prompt(seed), max_tokens=24)
        ours, torchs = (run_blocking(model.answer(request)) for model in models)
        assert isinstance(ours, Answer)
        assert ours == torchs

    @pytest.mark.parametrize("temperature", [0.0, 2.0])
    def test_an_answer_is_held_to_its_schema_here_and_in_torch(
        self, models: tuple[EmbeddedModel, Model], temperature: float
    ) -> None:
        schema = Written(("[", Word(("yes", "no")), "] ", FreeText("<"), "<", Number(0, 100, unit="%"), ">"))
        asked = Generate(self.prompt(0), 30, temperature, top_logprobs=4, schema=schema)
        ours, torchs = (run_blocking(model.answer(asked)) for model in models)
        for answer in (ours, torchs):
            assert isinstance(answer, Answer)
            assert re.fullmatch(schema.written().regex(), answer.text), answer.text
            assert answer.finish == "stop"
            assert answer.schema_mass is not None
            assert 0 < answer.schema_mass < 1
            assert "".join(choice.token for choice in answer.choices) == answer.text
        assert isinstance(ours, Answer)
        assert isinstance(torchs, Answer)
        if not temperature:
            assert ours.text == torchs.text
            assert ours.schema_mass == pytest.approx(torchs.schema_mass, rel=1e-3)
            for here, there in zip(ours.choices, torchs.choices, strict=True):
                assert dict(here.top) == pytest.approx(dict(there.top), abs=NATS)
        free = Generate(self.prompt(0), max_tokens=30, top_logprobs=4)
        answer = models[0].generate(free)
        assert answer.schema_mass is None
        assert len(answer.choices) == answer.tokens_out - (answer.finish == "stop")

    def test_scores_of_the_next_token_are_torchs(self, models: tuple[EmbeddedModel, Model]) -> None:
        request = Score(Prompt(self.prompt(0).turns, prefill="The answer is:"), tiny.CANDIDATES)
        ours, torchs = (run_blocking(model.answer(request)) for model in models)
        assert isinstance(ours, Scores)
        assert isinstance(torchs, Scores)
        np.testing.assert_allclose(ours.logprobs, torchs.logprobs, atol=NATS)
        assert ours.tokens_in == torchs.tokens_in

    def test_sampling_follows_its_seed_and_repeat_number(self, models: tuple[EmbeddedModel, Model]) -> None:
        def text(**options: object) -> str:
            options = {"temperature": 3.0, "max_tokens": 12, **options}
            return models[0].generate(Generate(self.prompt(0), **options)).text  # type: ignore[arg-type]

        assert text(seed=1) == text(seed=1)
        assert len({text(seed=1), text(seed=2), text(seed=1, repeat=1)}) == 3
        # Only the likeliest token is left of a small share.
        assert text(seed=1, top_p=1e-9) == text(temperature=0.0)

    def test_the_mark_of_an_image_in_a_text_is_refused(self, models: tuple[EmbeddedModel, Model]) -> None:
        with pytest.raises(ModelError, match=r"may not contain <\|vision_start\|>"):
            models[0].generate(Generate(Prompt((Turn("user", ("<|vision_start|>",)),))))


def test_features_of_images_are_torchs(folder: Path) -> None:
    images = [tiny.clip(1, height=40 + 20 * i, width=90, seed=i).frames[0] for i in range(4)]
    ours = EmbeddedModel(checkpoint=str(folder), gate=False)._engine.image_features(images)
    np.testing.assert_allclose(ours, image_features(torch_network(folder), images), atol=1e-4)


def test_both_gelus_are_torchs() -> None:
    import torch

    x = np.linspace(-12, 12, 4001, dtype=np.float32)
    for ours, approximate in ((gelu_tanh, "tanh"), (gelu_erf, "none")):
        expected = torch.nn.functional.gelu(torch.from_numpy(x), approximate=approximate).numpy()
        np.testing.assert_allclose(ours(x), expected, atol=2e-6)
        assert ours(x).dtype == np.float32


def test_tokens_of_a_text_are_torchs(models: tuple[EmbeddedModel, Model]) -> None:
    text = " push the puck to the goal"
    assert models[0].token_texts(text) == models[1].token_texts(text)  # type: ignore[attr-defined]


def test_the_bundled_rollouts_get_torchs_scores() -> None:
    torchs = get_model(f"hf/{FOLDER}", max_pixels=trained_side(FOLDER) ** 2)
    episodes = open_episodes(DEMO)
    for episode in episodes[:: len(episodes) // 4]:
        clip = episode.clip(count=20, size=224)
        request = ScorePrefixes(
            DecodedMedia(clip, video=True),
            (2, 12, 19, 20),
            tiny.statements(episode.instruction),
            tiny.CANDIDATES,
        )
        ours, others = (scored(model, request) for model in (EmbeddedModel(gate=False), torchs))
        np.testing.assert_allclose(ours.logprobs, others.logprobs, atol=NATS)


class TestWhatItIs:
    def test_the_protocol_names_the_runtime_so_that_torch_shares_no_answer(
        self, models: tuple[EmbeddedModel, Model]
    ) -> None:
        ours, torchs = (model.describe() for model in models)
        assert ours["runtime"] == "numpy float32"
        assert ours["weights"] == torchs["weights"]
        assert ours != torchs

    @pytest.mark.parametrize("option", ["dtype", "device", "attention", "batch", "scoring"])
    def test_an_option_of_torch_is_refused_with_where_it_is_taken(self, option: str) -> None:
        with pytest.raises(UnknownNameError, match="computes the same checkpoint as --model hf/"):
            get_model("embedded", **{option: "x"})

    def test_it_answers_without_torch_transformers_or_a_connection(self) -> None:
        code = f"""
import socket, sys
def refuse(*_, **__): raise AssertionError("a connection was opened")
socket.socket.connect = socket.getaddrinfo = refuse
from stepscore.episodes import open_episodes
from stepscore.judges import get_judge
from stepscore.models import get_model
from stepscore.runs import score
import tempfile
with tempfile.TemporaryDirectory() as folder:
    run = score(open_episodes({str(DEMO)!r})[:1], get_judge("topreward", model=get_model("embedded")), folder)
    assert run.judgements()["error"].null_count == 1, run.judgements()["error"]
print(sorted({{name.split(".")[0] for name in sys.modules}} & {{"torch", "transformers", "huggingface_hub"}}))
"""
        ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
        assert ended.stdout.strip() == "[]", ended.stderr

    def test_one_thread_of_blas_while_it_computes(self) -> None:
        from threadpoolctl import threadpool_info

        def threads() -> set[int]:
            # NumPy's own: SciPy brings another, which may be loaded later and computes nothing here.
            return {library["num_threads"] for library in threadpool_info() if "numpy" in library["filepath"]}

        before = threads()
        with one_blas_thread():
            assert threads() == {1}
        assert threads() == before

    def test_a_request_limits_them_and_gives_them_back(
        self, models: tuple[EmbeddedModel, Model], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        from threadpoolctl import threadpool_info, threadpool_limits

        from stepscore.models.embedded.runtime import prefix_scoring

        def threads() -> set[int]:
            return {library["num_threads"] for library in threadpool_info() if "numpy" in library["filepath"]}

        seen: list[set[int]] = []
        compute = prefix_scoring.score_branches

        def watched(*arguments: Any) -> Any:
            seen.append(threads())
            return compute(*arguments)

        monkeypatch.setattr(prefix_scoring, "score_branches", watched)
        # By a thread that ends: as long as it lives, threadpoolctl lets no other thread change what one has set.
        usual = max(threads())
        with ThreadPoolExecutor(1) as ended:
            ended.submit(threadpool_limits, 2, user_api="blas").result()
        before = threads()
        scored(models[0], prefixes(2, (2,)))
        after = threads()
        with ThreadPoolExecutor(1) as ended:
            ended.submit(threadpool_limits, usual, user_api="blas").result()
        assert (before, seen, after) == ({2}, [{1}], {2})


class TestCheckpointsItDoesNotCompute:
    @pytest.fixture
    def copy(self, tmp_path: Path) -> Path:
        made = tiny.tokenizer()
        return tiny.save(tmp_path / "checkpoint", tiny.qwen3vl(made), made)

    @pytest.mark.parametrize(
        ("field", "value", "message"),
        [
            (("text_config", "hidden_act"), "relu", "hidden_act is 'relu'"),
            (("text_config", "attention_bias"), True, "attention_bias is True"),
            (("vision_config", "hidden_act"), "gelu", "hidden_act is 'gelu'"),
            (("vision_config", "deepstack_visual_indexes"), [0, 1, 2], "fewer items than"),
            (("video_token_id",), 10**6, "video_token_id must be .*got 1000000"),
        ],
    )
    def test_they_are_refused_by_field(
        self, copy: Path, field: tuple[str, ...], value: object, message: str
    ) -> None:
        config = json.loads((copy / "config.json").read_text())
        inner = config
        for name in field[:-1]:
            inner = inner[name]
        inner[field[-1]] = value
        (copy / "config.json").write_text(json.dumps(config))
        with pytest.raises(ModelError, match=message):
            scored(EmbeddedModel(checkpoint=str(copy), gate=False), prefixes(2, (2,)))

    def test_weights_that_are_not_numbers_and_a_damaged_tokenizer_are_refused(self, copy: Path) -> None:
        from safetensors.numpy import load_file, save_file

        weights = load_file(copy / "model.safetensors")
        (copy / "tokenizer.json").write_text("{}")
        with pytest.raises(ModelError, match="is not a tokenizer"):
            scored(EmbeddedModel(checkpoint=str(copy), gate=False), prefixes(2, (2,)))
        weights["model.visual.pos_embed.weight"][0, 0] = np.nan
        save_file(weights, copy / "model.safetensors")
        with pytest.raises(ModelError, match="not finite"):
            scored(EmbeddedModel(checkpoint=str(copy), gate=False), prefixes(2, (2,)))
        save_file({"a": np.zeros(3, np.float32)}, copy / "model.safetensors")
        with pytest.raises(ModelError, match=r"do not belong together|tensors, fewer"):
            scored(EmbeddedModel(checkpoint=str(copy), gate=False), prefixes(2, (2,)))
