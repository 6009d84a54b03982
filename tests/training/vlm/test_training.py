"""Training: a tree is the prompts it stands for, stopping loses nothing, and what is trained is learned."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

import numpy as np
import pytest
import torch

from stepscore.errors import OptionError, SourceError
from stepscore.judges.common import video_prompt
from stepscore.models.media import DecodedMedia
from stepscore.models.qwen3vl.inputs import Geometry, patches
from stepscore.models.qwen3vl.prefix_plan import PromptLayout
from stepscore.training.job import deferred_interrupt
from stepscore.training.sarm.job import SarmJob
from stepscore.training.vlm import setup as vlm_setup
from stepscore.training.vlm.config import VlmTrainConfig
from stepscore.training.vlm.data.clips import (
    LOWEST_LOG_ODDS,
    _at_fixed_rate,
    completion_log_odds,
    sample_clip,
    sample_statements,
)
from stepscore.training.vlm.data.dataset import LabelledVideo, read_videos
from stepscore.training.vlm.data.prompt_tree import Question, Statement, batch_trees, image_tree, video_tree
from stepscore.training.vlm.data.variants import vary
from stepscore.training.vlm.evaluation import evaluate
from stepscore.training.vlm.job import VlmJob
from stepscore.training.vlm.small_vlm import SmallVlmConfig, fixed_phrases
from stepscore.training.vlm.trainer import HEAD, WORDS, VlmTrainer
from tests.paths import TINY_SIM

SIZE = 32
SIZES = SmallVlmConfig(
    hidden_size=48,
    num_hidden_layers=2,
    num_attention_heads=2,
    intermediate_size=64,
    vision_hidden_size=32,
    vision_depth=2,
    vision_intermediate_size=48,
    image_size=SIZE,
)


@pytest.fixture(scope="module")
def videos(tmp_path_factory: pytest.TempPathFactory) -> list[LabelledVideo]:
    torch.set_num_threads(1)
    return read_videos(TINY_SIM, SIZE, tmp_path_factory.mktemp("frames"))[::3]


def trainer(videos: list[LabelledVideo], folder: Path, **options: float | str) -> VlmTrainer:
    texts = vlm_setup.texts_of(videos, {})
    network, tokenizer = vlm_setup.new_network(texts, SIZES, 0)
    folder.mkdir(exist_ok=True)
    config = VlmTrainConfig(**{"steps": 4, "save_every": 100, **options})  # type: ignore[arg-type]
    encode = vlm_setup.encode_with(tokenizer)
    return vlm_setup.build_trainer(
        network, encode, videos, texts, config, folder, geometry=Geometry(), image_size=SIZE
    )


def log_odds(run: VlmTrainer, tree: object, frames: np.ndarray) -> list[float]:
    batch = batch_trees([tree], run.layout.tokens.end)  # type: ignore[list-item]
    places = batch.choice_places
    with torch.no_grad():
        hidden, _, _ = run.loss_computer.forward(batch, torch.from_numpy(patches(frames, Geometry())))
        logits = run.loss_computer.network.lm_head(hidden[places[:, 0], places[:, 1]])
    yes, no = logits.log_softmax(-1).gather(1, torch.from_numpy(batch.choice_ids)).unbind(1)
    return (yes - no).tolist()


def test_every_branch_of_a_video_is_the_prompt_it_stands_for(
    videos: list[LabelledVideo], tmp_path: Path
) -> None:
    from stepscore.episodes import Clip
    from stepscore.models.qwen3vl.prompts import QwenInputs

    run = trainer(videos, tmp_path)
    run.loss_computer.network.eval()
    video = videos[0]
    frames, times = next(iter(video.views.values()))[:6], video.times[:6]
    said = [
        Statement(2, " open the drawer.", 0.0),
        Statement(1, " close it now.", 0.0),
        Statement(3, " x", 0.0),
    ]
    found = log_odds(run, video_tree(run.layout, times, said, WORDS), np.ascontiguousarray(frames))
    prompts = QwenInputs(run.layout.encode, run.layout.tokens, Geometry())
    for statement, value in zip(said, found, strict=True):
        n = 2 * statement.blocks
        clip = Clip(frames[:n], times[:n], np.arange(n))
        inputs = prompts.inputs([HEAD, DecodedMedia(clip, video=True), statement.text])
        with torch.no_grad():
            last = run.loss_computer.network(**inputs).logits[0, -1].log_softmax(-1)
        yes, no = (run.layout.encode(statement.text + word)[-1] for word in WORDS)
        assert value == pytest.approx(float(last[yes] - last[no]), abs=1e-4)


def test_a_question_with_images_is_the_prompt_it_stands_for(
    videos: list[LabelledVideo], tmp_path: Path
) -> None:
    from stepscore.episodes import Clip
    from stepscore.models.qwen3vl.prompts import QwenInputs

    run = trainer(videos, tmp_path)
    run.loss_computer.network.eval()
    frames = np.ascontiguousarray(next(iter(videos[0].views.values()))[[0, 4]])
    parts = ("Frame 1: ", None, "\nFrame 2: ", None, "\nIs it open?")
    tree = image_tree(run.layout, [Question(parts, "", (" Yes", " No"))])
    value = log_odds(run, tree, np.repeat(frames, 2, axis=0))[0]
    stills = iter(
        DecodedMedia(Clip(frames[k : k + 1], np.zeros(1), np.zeros(1, dtype=np.int64))) for k in (0, 1)
    )
    prompts = QwenInputs(run.layout.encode, run.layout.tokens, Geometry())
    inputs = prompts.inputs([next(stills) if part is None else part for part in parts])
    with torch.no_grad():
        last = run.loss_computer.network(**inputs).logits[0, -1].log_softmax(-1)
    yes, no = (run.layout.encode(parts[-1] + word)[-1] for word in (" Yes", " No"))
    assert value == pytest.approx(float(last[yes] - last[no]), abs=1e-4)


def test_the_words_of_an_answer_are_what_is_learned_and_nothing_else(
    tmp_path: Path, videos: list[LabelledVideo]
) -> None:
    run = trainer(videos, tmp_path)
    layout: PromptLayout = run.layout
    tree = image_tree(layout, [Question(("Look: ", None, " Answer:"), "yes it is")])
    branch = tree.branches[0]
    learned = branch.targets[branch.targets >= 0].tolist()
    assert learned == layout.encode("yes it is<|im_end|>")
    asked = len(layout.encode(" Answer:"))
    assert (branch.targets[: asked - 1] < 0).all()
    assert branch.span.ids[asked:].tolist() == learned[:-1]


def test_a_percentage_is_one_token_with_a_target_around_its_exact_value(
    videos: list[LabelledVideo], tmp_path: Path
) -> None:
    run = trainer(videos, tmp_path)
    encode, ids = run.layout.encode, vlm_setup.number_ids(run.layout.encode)
    assert len(ids) == 101
    asked = Question((None, " How far?"), "<score>+25%</score> and 84.13%.", values=(0.2512, 0.8413))
    branch = image_tree(run.layout, [asked], number_ids=ids).branches[0]
    whole = [*encode(" How far?"), *encode("<score>+25%</score> and 84%.")]
    assert branch.span.ids.tolist() == whole
    assert [value for _, value in branch.numbers] == [0.2512, 0.8413]
    follows = [branch.span.ids[at + 1] for at, _ in branch.numbers]
    assert follows == [ids[25], ids[84]]
    assert all(branch.targets[at] < 0 for at, _ in branch.numbers)
    # Without number tokens the answer is as the judge's prompt shows it.
    plain = image_tree(run.layout, [asked]).branches[0]
    assert plain.span.ids.tolist() == [*encode(" How far?"), *encode(asked.answer)]
    assert not plain.numbers


def test_the_loss_of_a_number_is_least_at_its_value(videos: list[LabelledVideo], tmp_path: Path) -> None:
    run = trainer(videos, tmp_path)
    ids = vlm_setup.number_ids(run.layout.encode)
    frames = next(iter(videos[0].views.values()))[[0, 0]]
    pixels = torch.from_numpy(patches(frames, Geometry()))
    optimizer = torch.optim.Adam(run.loss_computer.network.parameters(), 1e-2)
    tree = image_tree(run.layout, [Question((None, "?"), "40%", values=(0.4,))], number_ids=ids)
    batch = batch_trees([tree], run.layout.tokens.end)
    for _ in range(60):
        loss, parts = run.loss_computer.loss(batch, pixels, None)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    assert parts["expected"] < 0.05
    hidden, _, _ = run.loss_computer.forward(batch, pixels)
    ((row, place),) = batch.number_places.tolist()
    logits = run.loss_computer.network.lm_head(hidden[row, place])[list(ids)]
    assert 37 <= int(logits.argmax()) <= 43


def test_statements_are_as_true_as_the_last_frame_shown(videos: list[LabelledVideo]) -> None:
    texts = vlm_setup.texts_of(videos, {})
    rng = np.random.default_rng(1)
    static, falling = 0, 0
    for _ in range(90):
        video = vary(videos[int(rng.integers(len(videos)))], rng)
        clip = sample_clip(video, 4, rng)
        static += clip.is_static
        falling += bool((np.diff(video.potential) < -0.02).any())
        for statement in sample_statements(clip, texts, rng, max_prefixes=8):
            if statement.text == texts.fill(video.instruction):
                last = clip.last_frame(statement.blocks)
                right = completion_log_odds(float(video.potential[last]), done=bool(video.success[last]))
                assert statement.log_odds == right
                assert statement.static == clip.is_static
    assert static > 3
    assert falling > 10


def test_only_success_is_worth_more_than_even() -> None:
    values = [completion_log_odds(p, done=False) for p in np.linspace(0, 1, 11)]
    assert values == sorted(values)
    assert values[0] == LOWEST_LOG_ODDS
    assert values[-1] < -1
    assert completion_log_odds(1.0, done=True) > 3


def test_a_run_stopped_and_taken_up_again_ends_where_one_without_a_stop_does(
    videos: list[LabelledVideo], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    straight = trainer(videos, tmp_path / "a")
    straight.run()
    stopped = trainer(videos, tmp_path / "b")
    monkeypatch.setattr("stepscore.training.trainer.SAVE_MINUTES", 0.0)

    def stop(step: int, loss: float) -> None:
        if step == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        stopped.run(on_step=stop)
    again = trainer(videos, tmp_path / "b")
    assert again.resume()
    assert again.step == 2, "what was learned in the last minutes is kept, between two saves too"
    again.run()
    for name, weights in straight.loss_computer.network.state_dict().items():
        assert torch.equal(weights, again.loss_computer.network.state_dict()[name]), name


def test_resuming_with_another_config_is_refused(videos: list[LabelledVideo], tmp_path: Path) -> None:
    trainer(videos, tmp_path).run(max_minutes=0)
    other = trainer(videos, tmp_path, lr=0.5)
    with pytest.raises(OptionError, match="lr"):
        other.resume()


@pytest.mark.slow
def test_a_tiny_network_learns_to_tell_right_from_wrong(videos: list[LabelledVideo], tmp_path: Path) -> None:
    run = trainer(videos, tmp_path, steps=60, lr=2e-3, image_question_fraction=0.1, warmup_steps=10)
    losses: list[float] = []
    run.run(on_step=lambda step, loss: losses.append(loss))
    assert np.mean(losses[-10:]) < 0.6 * np.mean(losses[:5])
    metrics = evaluate(run, videos)
    assert set(metrics) >= {"auc", "auc_prefix", "right", "wrong", "subgoals", "frozen"}
    assert metrics["frozen"] < 0.2


def test_lora_trains_the_adapters_alone_and_merges_into_a_plain_checkpoint(
    videos: list[LabelledVideo], tmp_path: Path
) -> None:
    texts = vlm_setup.texts_of(videos, {})
    network, tokenizer = vlm_setup.new_network(texts, SIZES, 0)
    vlm_setup.write_checkpoint(network, tokenizer, tmp_path / "base")
    job = VlmJob(
        (TINY_SIM,), tmp_path / "out", base=f"hf/{tmp_path / 'base'}", lora_rank=4, steps=2, image_size=SIZE,
        frames_dir=tmp_path / "frames", threads=1, image_question_fraction=0.0, lr=1e-2,
    )  # fmt: skip
    done = job.run()
    assert done["finished"]
    from safetensors.torch import load_file

    kept = "preprocessor_config.json"
    assert (tmp_path / "out" / kept).read_bytes() == (tmp_path / "base" / kept).read_bytes()
    before, after = (load_file(tmp_path / name / "model.safetensors") for name in ("base", "out"))
    assert set(before) == set(after)
    changed = {name for name in before if not torch.equal(before[name], after[name])}
    assert changed
    assert all("language_model" in name and "_proj" in name for name in changed)


@pytest.mark.parametrize("lora", [None, 4])
def test_ctrl_c_ends_after_the_step_under_way_with_a_checkpoint_and_resumes_to_the_same_weights(
    videos: list[LabelledVideo], tmp_path: Path, lora: int | None
) -> None:
    from safetensors.torch import load_file

    network, tokenizer = vlm_setup.new_network(vlm_setup.texts_of(videos, {}), SIZES, 0)
    vlm_setup.write_checkpoint(network, tokenizer, tmp_path / "base")

    def job(name: str) -> VlmJob:
        return VlmJob(
            (TINY_SIM,), tmp_path / name, base=f"hf/{tmp_path / 'base'}", lora_rank=lora, steps=3,
            image_size=SIZE, frames_dir=tmp_path / "frames", image_question_fraction=0.0, threads=1,
        )  # fmt: skip

    def interrupt(step: int, total: int, loss: float) -> None:
        if step == 1:
            os.kill(os.getpid(), signal.SIGINT)

    with pytest.raises(KeyboardInterrupt, match="step 1 is saved, with a checkpoint in"):
        job("stopped").run(on_step=interrupt)
    names = set(load_file(tmp_path / "base" / "model.safetensors"))
    assert set(load_file(tmp_path / "stopped" / "model.safetensors")) == names
    assert job("stopped").run()["finished"]
    assert job("at-once").run()["finished"]
    resumed, once = (load_file(tmp_path / name / "model.safetensors") for name in ("stopped", "at-once"))
    assert all(torch.equal(resumed[name], once[name]) for name in names)


def test_a_second_ctrl_c_is_not_held_back() -> None:
    def interrupt_twice() -> None:
        with deferred_interrupt() as interrupted:
            os.kill(os.getpid(), signal.SIGINT)
            assert interrupted()
            os.kill(os.getpid(), signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        interrupt_twice()
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


@pytest.mark.parametrize(("cpus", "threads"), [(1, 1), (2, 1), (4, 1), (8, 4), (None, 1)])
def test_a_small_machine_trains_on_one_thread(
    monkeypatch: pytest.MonkeyPatch, cpus: int | None, threads: int
) -> None:
    monkeypatch.setattr(os, "cpu_count", lambda: cpus)
    assert VlmJob((TINY_SIM,), Path("out")).threads == threads
    assert SarmJob((TINY_SIM,), Path("out")).threads == threads


def test_what_is_trained_is_loaded_as_any_other_checkpoint(
    videos: list[LabelledVideo], tmp_path: Path
) -> None:
    import asyncio

    from stepscore.episodes import Clip
    from stepscore.models import ScorePrefixes, get_model

    job = VlmJob(
        (TINY_SIM,), tmp_path / "out", steps=1, image_size=SIZE, frames_dir=tmp_path / "frames", threads=1
    )
    assert job.run()["finished"]
    video = videos[0]
    clip = Clip(next(iter(video.views.values()))[:8], video.times[:8], np.arange(8))
    model = get_model(f"hf/{tmp_path / 'out'}")
    prompt = video_prompt(" open the drawer", template="open")
    request = ScorePrefixes(DecodedMedia(clip, video=True), (4, 8), (prompt,), WORDS)
    scores = asyncio.run(model.answer(request))
    assert np.isfinite(scores.logprobs).all()  # type: ignore[attr-defined]


def test_a_stage_of_some_minutes_is_kept_and_gone_on_from(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    def job() -> VlmJob:
        return VlmJob(
            (TINY_SIM,), tmp_path / "out", steps=3, image_size=SIZE, frames_dir=tmp_path / "frames", threads=1
        )

    said: list[str] = []
    first = job().run(0)
    assert (first["step"], first["finished"]) == (0, False)
    assert "Writing model shards" not in capfd.readouterr().err
    second = job().run(log=said.append)
    assert (second["step"], second["finished"]) == (3, True)
    assert any("Resuming" in line for line in said)


def test_a_dataset_without_labels_says_what_to_do(tmp_path: Path) -> None:
    for name in ("data", "meta", "videos"):
        (tmp_path / name).symlink_to(TINY_SIM / name)
    with pytest.raises(SourceError, match="stepscore sim"):
        VlmJob((tmp_path,), tmp_path / "out").run()


@pytest.mark.parametrize(
    ("options", "said"),
    [({"lora_rank": 4}, "-T base"), ({"base": "some/path"}, "hf/"), ({"image_size": 100}, "multiple of 32")],
)
def test_options_that_make_no_sense_are_refused(
    options: dict[str, object], said: str, tmp_path: Path
) -> None:
    with pytest.raises(OptionError, match=said):
        VlmJob((TINY_SIM,), tmp_path, **options)  # type: ignore[arg-type]


def test_fixed_parts_of_prompts_are_single_tokens(videos: list[LabelledVideo], tmp_path: Path) -> None:
    encode = trainer(videos, tmp_path).layout.encode
    assert len(fixed_phrases()) > 20
    for phrase in fixed_phrases():
        assert len(encode(phrase)) == 1, phrase


def test_a_clip_at_a_fixed_rate_shows_the_same_frames_of_a_longer_video(videos: list[LabelledVideo]) -> None:
    """What a live session has seen so far does not depend on how long the video will be."""
    for seed in range(20):
        rates = np.random.default_rng(seed), np.random.default_rng(seed)
        one, other = (_at_fixed_rate(end, 19, rng) for end, rng in zip((12, 30), rates, strict=True))
        seen = np.unique(one).tolist()
        assert other[: len(seen)].tolist() == seen
        assert len(one) % 2 == len(other) % 2 == 0
    longest = max(videos, key=len)
    assert len(_at_fixed_rate(len(longest), 2, np.random.default_rng(0))) <= 4


def test_paraphrases_keep_their_last_three_for_tests() -> None:
    path = Path(vlm_setup.__file__).parents[1] / "embedded" / "paraphrases.yaml"
    read = vlm_setup.read_paraphrases(path)
    import yaml

    whole = yaml.safe_load(path.read_text())
    assert len(read) >= 25
    assert all(whole[said][:-3] == others for said, others in read.items())
    assert all(len(others) >= 12 for others in read.values())
    every = [text for said, others in whole.items() for text in (said, *others)]
    assert len(set(every)) == len(every)


def test_the_log_of_a_run_is_json_lines(videos: list[LabelledVideo], tmp_path: Path) -> None:
    run = trainer(videos, tmp_path, steps=50, image_question_fraction=0.0, max_prefixes=1)
    run.run()
    lines = [json.loads(line) for line in (tmp_path / "training.jsonl").read_text().splitlines()]
    assert lines[-1]["step"] == 50
    assert lines[-1]["statements"] >= 0


def test_the_vision_encoder_is_trained_first_where_states_are_recorded(
    videos: list[LabelledVideo], tmp_path: Path
) -> None:
    run = trainer(videos, tmp_path, vision_pretrain_steps=12, steps=1, lr=3e-3, warmup_steps=3)
    before = {name: weights.clone() for name, weights in run.loss_computer.network.state_dict().items()}
    losses: list[float] = []

    def on_step(step: int, loss: float) -> None:
        losses.append(loss)
        if step == 12:
            after = run.loss_computer.network.state_dict()
            moved = {name for name in before if not torch.equal(before[name], after[name])}
            assert moved
            assert all("visual" in name for name in moved)

    run.run(on_step=on_step)
    assert len(losses) == 13
    assert np.mean(losses[8:12]) < losses[0]


def test_bfloat16_products_give_nearly_the_same_loss_and_keep_float32_weights(
    videos: list[LabelledVideo], tmp_path: Path
) -> None:
    options = {"vision_pretrain_steps": 1, "steps": 2, "image_questions_from": 0.0}
    losses: dict[str, list[float]] = {}
    for dtype in ("float32", "bfloat16"):
        run = trainer(videos, tmp_path / dtype, **options, dtype=dtype)
        losses[dtype] = []
        run.run(on_step=lambda step, loss, into=losses[dtype]: into.append(loss))  # type: ignore[misc]
        assert {weights.dtype for weights in run.loss_computer.network.parameters()} == {torch.float32}
    assert losses["bfloat16"] != losses["float32"]
    assert losses["bfloat16"] == pytest.approx(losses["float32"], rel=0.03)


def test_each_phase_ends_at_a_small_learning_rate() -> None:
    config = VlmTrainConfig(
        vision_pretrain_steps=200, align_steps=50, steps=300, frozen_vision_steps=300, warmup_steps=5
    )
    rates = [config.lr_at(step) for step in range(config.total_steps)]
    assert max(rates[:200]) > 0.9 * config.lr
    assert rates[199] < 0.04 * config.lr  # the encoder is frozen from here on
    assert max(rates[200:250]) <= config.lr
    assert rates[-1] < 0.04 * config.lr


def test_the_language_model_is_then_aligned_with_the_vision_encoder(
    videos: list[LabelledVideo], tmp_path: Path
) -> None:
    run = trainer(videos, tmp_path, vision_pretrain_steps=1, align_steps=12, steps=1, lr=3e-3, warmup_steps=3)
    before: dict[str, torch.Tensor] = {}
    losses: list[float] = []

    def on_step(step: int, loss: float) -> None:
        losses.append(loss)
        now = run.loss_computer.network.state_dict()
        if step == 1:
            before.update({name: weights.clone() for name, weights in now.items()})
        if step == 13:
            moved = {name for name in before if not torch.equal(before[name], now[name])}
            assert any("language_model.layers.0" in name for name in moved)
            assert not any("visual" in name for name in moved)

    run.run(on_step=on_step)
    assert len(losses) == 14
    assert np.mean(losses[9:13]) < losses[1]


def test_a_short_clip_is_of_the_last_frames_and_states_nothing_they_cannot_show(
    videos: list[LabelledVideo],
) -> None:
    rng = np.random.default_rng(5)
    texts = vlm_setup.texts_of(videos, {})
    without = 0
    for video in videos * 10:
        clip = sample_clip(video, 1, rng)
        first, last = clip.source.tolist()
        assert 0 <= last - first <= 5
        statements = sample_statements(clip, texts, rng, max_prefixes=8, subgoal_fraction=1.0)
        names = {texts.fill(subgoal.name): number for number, subgoal in enumerate(video.subgoals)}
        stated = [(names[s.text], s.log_odds > 0) for s in statements if s.text in names]
        assert all(bool(video.subgoals_true[last, number]) == true for number, true in stated)
        without += not stated
    assert without < len(videos) * 5
