"""The chat template that comes with a checkpoint, as text. It is copied, never run here."""

from __future__ import annotations

from pathlib import Path

from stepscore._untrusted import read_text, shown
from stepscore._untrusted.checkpoint_folder import (
    MAX_CONFIG_BYTES,
    brief,
    checked_file,
    has_file,
    named_folder,
    read_object,
)
from stepscore.errors import ModelError

TEMPLATE_FILE = "chat_template.jinja"
FILES = (TEMPLATE_FILE, "chat_template.json", "tokenizer_config.json", "config.json")
CHATML = (
    "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\\n' }}"
    "{% if message['content'] is string %}{{ message['content'] }}{% else %}"
    "{% for part in message['content'] %}"
    "{% if part['type'] == 'text' %}{{ part['text'] }}"
    "{% elif part['type'] == 'image' %}<|vision_start|><|image_pad|><|vision_end|>"
    "{% elif part['type'] == 'video' %}<|vision_start|><|video_pad|><|vision_end|>{% endif %}"
    "{% endfor %}{% endif %}{{ '<|im_end|>\\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"
)
"""What a checkpoint of the Qwen family without a template gets, as under ``hf/``."""


def chat_template_of(checkpoint: str) -> str:
    """Return the chat template of a checkpoint: a folder, or a hub id of which only small files are downloaded.

    Raises:
        ModelError: There is no such checkpoint, or it has no template and is not of the Qwen family.
    """
    folder = named_folder(checkpoint)
    if not folder.is_dir():
        folder = _downloaded(checkpoint)
    if has_file(folder, TEMPLATE_FILE):
        return read_text(checked_file(folder, TEMPLATE_FILE), ModelError, max_bytes=MAX_CONFIG_BYTES)
    for name in FILES[1:3]:
        found = (
            read_object(folder, name, huge_integers=True).get("chat_template")
            if has_file(folder, name)
            else None
        )
        if found is not None:
            return _text(found, f"{shown(folder / name)}: chat_template")
    family = read_object(folder, "config.json").get("model_type") if has_file(folder, "config.json") else None
    if isinstance(family, str) and family.startswith("qwen"):
        return CHATML
    raise ModelError(
        f"{shown(folder)} has no chat template: none of {', '.join(FILES[:3])} holds one, and it is not of the Qwen "
        "family."
    )


def _text(found: object, where: str) -> str:
    """Return a template that is stored as a text, or as the one called ``default`` in a list of several."""
    if isinstance(found, list):
        named = [item for item in found if isinstance(item, dict) and item.get("name") == "default"]
        found = named[0].get("template") if named else found
    if not isinstance(found, str):
        raise ModelError(f"{where} is {brief(found)}; it is a text, or a list with one called default.")
    return found


def _downloaded(checkpoint: str) -> Path:
    if checkpoint.count("/") != 1 or checkpoint.startswith((".", "~", "/")):
        raise ModelError(f"{shown(checkpoint)}: there is no such folder.")
    try:
        from huggingface_hub import snapshot_download

        return Path(snapshot_download(checkpoint, allow_patterns=list(FILES)))
    except Exception as error:  # the hub's client raises many kinds; all mean that it is not available
        line = " ".join(str(error).split())[:300]
        raise ModelError(
            f"{shown(checkpoint)}: there is no such folder, and its chat template could not be downloaded "
            f"({type(error).__name__}: {line}). Give the path of a checkpoint folder."
        ) from error
