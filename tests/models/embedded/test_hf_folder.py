"""The folder of ``embedded`` is a complete Hugging Face folder, and as one says what the package does by itself."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest
from tokenizers import Tokenizer
from transformers import AutoImageProcessor, AutoModelForImageTextToText, AutoTokenizer

from stepscore.judges import get_judge
from stepscore.models import DecodedMedia, Prompt, Turn, chatml_parts, get_model
from stepscore.models.embedded.model import FOLDER, trained_side
from stepscore.models.hf.chat import chat_text
from stepscore.models.hf.files import read_json
from stepscore.models.qwen3vl import Geometry, geometry_of
from stepscore.models.sarm.encoders import get_encoder
from stepscore.training.vlm.processor_files import write_processor_files
from tests.models import tiny

IMAGE = DecodedMedia(tiny.part(tiny.clip(2), 0, 1))
VIDEO = DecodedMedia(tiny.clip(3), video=True)
PROMPTS = {
    "one turn": Prompt((Turn("user", ("open the drawer",)),)),
    "a prefill": Prompt((Turn("user", ("Is it open?",)),), prefill="The answer is:"),
    "an image and a video": Prompt((Turn("user", ("look ", IMAGE, "\nand\n", VIDEO, " then say")),)),
    "several turns": Prompt(
        (
            Turn("system", ("You judge robots.",)),
            Turn("user", (VIDEO, "  done?\n")),
            Turn("assistant", ("yes\n\n",)),
            Turn("user", ("{% if x %}{{ braces }} <|endoftext|> naïve 你好",)),
        )
    ),
    "media alone": Prompt((Turn("user", (IMAGE, IMAGE)),)),
}


@pytest.fixture(scope="module")
def tokenizer():
    return AutoTokenizer.from_pretrained(FOLDER, local_files_only=True)


def chatml(prompt: Prompt) -> str:
    """The prompt as the NumPy runtime reads it, with transformers' mark for each image."""
    marks = {False: "image", True: "video"}
    return "".join(
        f"<|vision_start|><|{marks[part.video]}_pad|><|vision_end|>"
        if isinstance(part, DecodedMedia)
        else str(part)
        for part in chatml_parts(prompt)
    )


@pytest.mark.parametrize("prompt", PROMPTS.values(), ids=list(PROMPTS))
def test_the_chat_template_writes_chatml(tokenizer, prompt: Prompt) -> None:
    assert chat_text(prompt, tokenizer) == chatml(prompt)


@pytest.mark.parametrize("prompt", PROMPTS.values(), ids=list(PROMPTS))
def test_auto_tokenizer_gives_the_tokens_of_the_runtime(tokenizer, prompt: Prompt) -> None:
    text = chatml(prompt)
    ours = Tokenizer.from_file(str(FOLDER / "tokenizer.json")).encode(text, add_special_tokens=False)
    assert tokenizer.encode(text, add_special_tokens=False) == ours.ids
    assert tokenizer.decode(ours.ids) == text


def test_a_plain_text_is_taken_as_content_too(tokenizer) -> None:
    messages = [{"role": "user", "content": "open the drawer"}]
    text = tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
    assert text == chatml(PROMPTS["one turn"])


def test_the_preprocessor_states_the_scaling_and_the_size_it_was_trained_on() -> None:
    side = trained_side(FOLDER)
    stated = geometry_of(
        read_json(FOLDER / "config.json")["vision_config"], read_json(FOLDER / "preprocessor_config.json")
    )
    without = Geometry()
    assert (stated.patch, stated.merge, stated.temporal) == (without.patch, without.merge, without.temporal)
    assert (stated.mean, stated.std, stated.video_pixels) == (
        without.mean,
        without.std,
        without.video_pixels,
    )
    assert stated.still_pixels == (without.still_pixels[0], side**2)
    processor = AutoImageProcessor.from_pretrained(FOLDER, local_files_only=True)
    assert processor.size["longest_edge"] == side**2


def test_what_binds_to_the_weights_still_holds() -> None:
    judge = get_judge("topreward", model=get_model("embedded"))
    assert judge.options()["calibration"] is not None
    files = hashlib.sha256()
    for name in ("config.json", "tokenizer.json"):  # as checkpoints of SARM on it have recorded
        files.update(f"{name} ".encode() + (FOLDER / name).read_bytes())
    assert get_encoder("embedded").describe()["files"] == files.hexdigest()


def test_torch_loads_it_without_a_progress_bar_of_transformers(capfd: pytest.CaptureFixture[str]) -> None:
    model = get_model(f"hf/{FOLDER}", max_pixels=trained_side(FOLDER) ** 2)
    assert model.score(PROMPTS["one turn"], (" True",)).logprobs[0] < 0
    assert "Loading weights" not in capfd.readouterr().err
    AutoModelForImageTextToText.from_pretrained(FOLDER, local_files_only=True)
    assert "Loading weights" in capfd.readouterr().err  # outside of it, the library's bars are as they were


def test_a_rebuilt_checkpoint_gets_the_same_files(tmp_path: Path) -> None:
    write_processor_files(tmp_path, read_json(FOLDER / "config.json"))
    written = sorted(path.name for path in tmp_path.iterdir())
    assert written == [
        "chat_template.jinja",
        "preprocessor_config.json",
        "tokenizer_config.json",
        "video_preprocessor_config.json",
    ]
    for name in written:
        assert (tmp_path / name).read_bytes() == (FOLDER / name).read_bytes(), name
