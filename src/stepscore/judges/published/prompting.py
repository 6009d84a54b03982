"""The texts of a question: the published ones, ours, or those of a file.

``-J prompt=`` is ``published`` (the texts that the profile names, fetched on first use), ``own`` (wording of this
project, in ``judges/prompts/own_PROFILE_QUESTION.txt``) or a path: a text file with sections ``[system]`` and
``[user]`` (``[done user]`` for one question alone), or without any, which is then the user's turn; the published
source file itself; or a folder with several of those. A published source file is known by its sha256.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from stepscore._untrusted import read_bytes, read_text, shown
from stepscore.errors import OptionError
from stepscore.judges.common.prompts import PromptTemplate, load_prompt
from stepscore.judges.published.profiles import Profile, PromptText, digest, published_text, text_of
from stepscore.models import Part

PUBLISHED, OWN = "published", "own"
IMAGE_MARK = "<image>"
"""Stands for an image in a text, as the published ones have it."""

MAX_FILES = 100
"""Most files of a folder of prompts that are read."""

MAX_PROMPT_BYTES = 1 << 20


def question_texts(profile: Profile, name: str, choice: str) -> dict[str, str]:
    """Return the texts of a question by role.

    Args:
        profile: The profile.
        name: The question's name.
        choice: ``published``, ``own``, or a path; see above.

    Raises:
        ModelError: A published text cannot be fetched, or is not the one that was pinned.
        OptionError: There is no such file, it lacks a text, or a text has other marks than its question has images.
    """
    question = profile.questions[name]
    if choice == PUBLISHED:
        texts = {role: _published(profile, text) for role, text in question.texts.items()}
    elif choice == OWN:
        texts = _sections(load_prompt(f"own_{profile.name}_{name}"), profile, name, "own wording")
    else:
        texts = _from_path(profile, name, Path(choice).expanduser())
    return texts


def text_digests(profile: Profile, name: str, choice: str) -> dict[str, str]:
    """Return the first 16 hex digits of each text's sha256, by role. Of published texts, without fetching them."""
    if choice == PUBLISHED:
        known = profile.questions[name].texts
        return {role: text.sha256[:16] for role, text in known.items() if text.sha256 is not None}
    return {role: digest(text.encode())[:16] for role, text in question_texts(profile, name, choice).items()}


def fill_text(text: str, fields: Mapping[str, str], values: Mapping[str, object]) -> str:
    """Return a text with its fields filled, in one pass: what is filled in holds no fields.

    Args:
        text: A published text.
        fields: Each of its fields, and the name of the value that fills it.
        values: Values by name.
    """
    if not fields:
        return text
    marks = {f"{{{field}}}": str(values[value]) for field, value in fields.items()}
    return re.sub("|".join(map(re.escape, marks)), lambda mark: marks[mark[0]], text)


def with_images(
    text: str, images: Sequence[Part], fields: Mapping[str, str], values: Mapping[str, object]
) -> tuple[Part, ...]:
    """Return a text with its images in the place of their marks; a text without marks stands after them.

    The text is split before its fields are filled: an instruction cannot place an image.
    """
    pieces = [fill_text(piece, fields, values) for piece in text.split(IMAGE_MARK)]
    if len(pieces) == 1:
        return (*images, pieces[0])
    parts: list[Part] = [pieces[0]]
    for image, after in zip(images, pieces[1:], strict=True):
        parts += [image, after]
    return tuple(part for part in parts if part != "")


def _published(profile: Profile, text: PromptText) -> str:
    if text.packaged is not None:
        return load_prompt(text.packaged).text
    if text.source is None:
        raise OptionError(
            f"{profile.name}: the text of this question is published nowhere that could be checked. Give it as a "
            "file: -J prompt=FILE"
        )
    return published_text(profile, text)


def _from_path(profile: Profile, name: str, path: Path) -> dict[str, str]:
    if path.is_dir():
        files = sorted(file for file in path.iterdir() if file.is_file())[:MAX_FILES]
    elif path.exists():
        files = [path]
    else:
        raise OptionError(
            f"prompt is {shown(path)}; it is published, own, or the path of a file or folder, and there is none."
        )
    contents = {digest(c := read_bytes(file, OptionError, max_bytes=MAX_PROMPT_BYTES)): c for file in files}
    known = {key: contents[s.sha256] for key, s in profile.sources.items() if s.sha256 in contents}
    if not known:
        if path.is_dir():
            raise OptionError(f"{shown(path)} holds none of the published files of {profile.name}.")
        words = read_text(path, OptionError, max_bytes=MAX_PROMPT_BYTES).removesuffix("\n")
        template = PromptTemplate(path.name, words)
        return _sections(template, profile, name, shown(path))
    texts = {}
    for role, text in profile.questions[name].texts.items():
        if text.source not in known:
            missing = profile.sources[text.source].path if text.source else "text"
            raise OptionError(f"{shown(path)} lacks {missing} of {profile.name}. Put both in one folder.")
        texts[role] = text_of(known[text.source], text.constant, text.sha256 or "")
    return texts


def _sections(template: PromptTemplate, profile: Profile, name: str, where: str) -> dict[str, str]:
    """Return the texts of a question from a text file, by role."""
    question = profile.questions[name]
    sections = {role: part.text for role, part in template.sections().items()} or {"user": template.text}
    texts = {role: sections.get(f"{name} {role}", sections.get(role)) for role in question.texts}
    found = {role: text for role, text in texts.items() if text is not None}
    if missing := sorted(set(texts) - set(found)):
        raise OptionError(
            f"{where}: there is no section [{missing[0]}] for the question {name}; it has "
            f"{', '.join(sorted(sections))}. Needed: {', '.join(f'[{role}]' for role in texts)}."
        )
    marks = sum(text.count(IMAGE_MARK) for text in found.values())
    images = 1 if profile.images.cell is not None else len(question.images)
    if marks not in (0, images):
        raise OptionError(
            f"{where} has {marks} marks {IMAGE_MARK}; the question {name} has {images} images. Words "
            f"for it alone stand in a section [{name} user]."
        )
    return found
