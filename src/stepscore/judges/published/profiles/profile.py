"""The profile of a published reward model: how it is asked, how its answers are read, and under which licence it is.

A profile is a YAML file in ``published/``, one for each family of checkpoints; ``stepscore ls models --published``
lists them. A new one is a new file::

    name: grm                          # the file's name; -J profile=grm
    judge: grm                         # the judge that asks as it says
    title: Robo-Dopamine GRM
    checkpoints:                       # a model is recognised by the last part of its name (GRM-3B of hf/me/GRM-3B)
      - id: owner/GRM-3B               # names: [...] has others that it goes by
        licence: Apache-2.0            # as its card states; left out: unknown
        non_commercial: false
    citation: Tan et al. 2025, arXiv 2512.23703
    needs: a goal image                # beyond the video and the instruction, for people
    views: 3                           # most cameras of one question
    images: {min_pixels: 12544, max_pixels: 76800}      # or side, cell, gap: see Images
    sampling: {temperature: 0.1, top_p: 0.9, top_k: 50, max_tokens: 1024}
    special_tokens: []                 # tokens added to the vocabulary, in order
    options: {points: 16}              # options that the judge has by default for these checkpoints
    progress: hop                      # how answers become progress: see ProgressRule
    sources:                           # files with published prompts, by a name of ours
      inference: {repository: owner/name, commit: 40 hex digits, path: a.py, sha256: ..., bytes: 27831, licence: MIT}
    questions:
      pair:
        images: [first 1, goal 1, before 1, before 2, before 3, after 1, after 2, after 3]
        texts:                         # by role: user, system, or a name that the judge knows
          user: {source: inference, constant: SYSTEM_PROMPT, sha256: ..., chars: 3040, fields: {task: instruction}}
        answer: {begins: "<score>", pattern: "<score>([0-9]+)%</score>", lowest: -100, highest: 100, per: 100}

A text that a checkpoint was trained with is not part of this project: the profile names where it is published, and
``prompt_texts.py`` fetches and checks it. A text without ``sha256`` is only taken from a file of the user's.
"""

from __future__ import annotations

import re
from typing import Annotated, Literal, NamedTuple

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, field_validator, model_validator

ImageRole = Literal[
    "first", "goal", "before", "after", "previous", "current", "window", "video", "demonstration"
]
ProgressRule = Literal["hop", "remaining", "stated", "rubric", "heads"]
"""How answers become progress.

==========  ===================================================================================================
rule        progress
==========  ===================================================================================================
hop         p + (1 - p) r for r >= 0, p + p r for r < 0 (incremental); r (forward); 1 + r (backward)
remaining   p + (1 - p) c for any sign of c, from p = 0
stated      the stated percentage over 100
rubric      the stated level, from lowest to highest, over 0..1
heads       numbers of trained heads, not text
==========  ===================================================================================================
"""

Sha256 = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Slot(NamedTuple):
    """An image of a question: its role, and which of the question's cameras shows it, counted from 1."""

    role: ImageRole
    view: int = 1


def _slot(value: object) -> object:
    """Read ``"before 2"`` as a slot."""
    if not isinstance(value, str):
        return value
    role, _, view = value.partition(" ")
    return (role, int(view) if view.isdecimal() else 1)


class Checkpoint(_Frozen):
    """A published checkpoint: its hub id, other names that it goes by, and the licence that its card states."""

    id: str
    names: tuple[str, ...] = ()
    licence: str = "unknown"
    non_commercial: bool = False

    @property
    def short_name(self) -> str:
        """The last part of its id."""
        return self.id.rpartition("/")[2]

    def is_called(self, name: str) -> bool:
        """Return whether the last part of a model's name is one of its own."""
        last = name.rstrip("/").rpartition("/")[2].casefold()
        return last in {known.casefold() for known in (self.short_name, *self.names)}


class Images(_Frozen):
    """The size of images.

    Attributes:
        min_pixels: An image of fewer pixels is scaled up to this many, its aspect ratio kept.
        max_pixels: One of more is scaled down.
        side: Longer side in pixels.
        square: Side of the square that an image is stretched to.
        cell: Side of the square that each image of a composite is fitted into, centred on black.
        gap: Black pixels between the cells of a composite.
    """

    min_pixels: int | None = None
    max_pixels: int | None = None
    side: int | None = None
    square: int | None = None
    cell: int | None = None
    gap: int = 0

    def longer_side(self, width: int, height: int) -> int | None:
        """Return the longer side in pixels of an image that had this size; ``None`` where it keeps its own."""
        pixels, longer = width * height, max(width, height)
        if self.side is not None or pixels == 0:
            return self.side
        most = pixels if self.max_pixels is None else min(pixels, self.max_pixels)
        wanted = most if self.min_pixels is None else max(most, self.min_pixels)
        return None if wanted == pixels else max(1, round(longer * (wanted / pixels) ** 0.5))


class VideoRule(_Frozen):
    """The frames of a video: ``fps`` a second, evenly from the first to the last, a multiple of ``multiple``."""

    fps: float = 1.0
    least: int = 1
    most: int = 8
    multiple: int = 1


class Sampling(_Frozen):
    """How text is generated; a temperature of 0 is greedy decoding."""

    temperature: float = 0.0
    top_p: float = 1.0
    top_k: int | None = None
    max_tokens: int = 512


class SourceFile(_Frozen):
    """A file of a public repository at one commit.

    Attributes:
        repository: ``owner/name``.
        commit: 40 hex digits.
        path: The file's path.
        sha256: Of its bytes.
        bytes: Its size; no more is ever read.
        licence: Of the repository, as it states it.
    """

    repository: str = Field(pattern=r"^[\w.-]+/[\w.-]+$")
    commit: str = Field(pattern=r"^[0-9a-f]{40}$")
    path: str = Field(pattern=r"^[\w./-]+$")
    sha256: Sha256
    bytes: int = Field(gt=0, le=1 << 20)
    licence: str = "unknown"


class PromptText(_Frozen):
    """One published text, and where it stands.

    Attributes:
        source: Name of the file in ``sources``; ``None`` where it comes from a file of the user's alone.
        constant: Where in a Python file, see ``literals.py``; ``None`` for a whole text file, stripped.
        packaged: Name of a prompt that is part of this project, instead of a source.
        sha256: Of the text in UTF-8.
        chars: Its length in characters.
        fields: Each of its ``{fields}`` and what fills it: ``instruction``, ``previous``. A bare ``{}`` is ``""``.
    """

    source: str | None = None
    constant: str | None = None
    packaged: str | None = None
    sha256: Sha256 | None = None
    chars: int = Field(default=1000, gt=0)
    fields: dict[str, str] = {}

    @model_validator(mode="after")
    def _hashed(self) -> PromptText:
        if self.source is not None and self.sha256 is None:
            raise ValueError("a text that is fetched needs its sha256")
        return self


class AnswerRule(_Frozen):
    """How an answer is read. What does not fit is unknown.

    Attributes:
        pattern: Regular expression of a whole statement; its one group is the number.
        begins: How every statement begins; where one begins and does not fit ``pattern``, all is unknown. ``None``:
            the pattern is the whole answer.
        lowest: Smallest number that is meant; another is unknown.
        highest: Largest one.
        per: What the number is divided by: 100 for percent.
        ignore_case: Whether upper and lower case are the same.
    """

    pattern: str
    begins: str | None = None
    lowest: float
    highest: float
    per: float = Field(default=1.0, gt=0)
    ignore_case: bool = False

    @field_validator("pattern")
    @classmethod
    def _one_group(cls, pattern: str) -> str:
        try:
            groups = re.compile(pattern).groups
        except re.error as error:
            raise ValueError(f"not a regular expression ({error})") from None
        if groups != 1:
            raise ValueError("the pattern has exactly one group, the number")
        return pattern


class Question(_Frozen):
    """One kind of question: its images in order, its texts by role, and how its answer is read."""

    images: tuple[Annotated[Slot, BeforeValidator(_slot)], ...]
    texts: dict[str, PromptText]
    answer: AnswerRule | None = None


class Profile(_Frozen):
    """A published model: see the module's docstring."""

    name: str = Field(pattern=r"^[a-z0-9.-]+$")
    judge: str
    title: str
    checkpoints: tuple[Checkpoint, ...] = Field(min_length=1)
    citation: str
    needs: str = ""
    views: int = Field(default=1, ge=1)
    window: int | None = None
    video: VideoRule | None = None
    images: Images = Images()
    sampling: Sampling = Sampling()
    special_tokens: tuple[str, ...] = ()
    progress: ProgressRule
    options: dict[str, bool | int | float | str | None] = {}
    sources: dict[str, SourceFile] = {}
    questions: dict[str, Question] = Field(min_length=1)

    @model_validator(mode="after")
    def _known_sources(self) -> Profile:
        for name, question in self.questions.items():
            for role, text in question.texts.items():
                if text.source is not None and text.source not in self.sources:
                    raise ValueError(f"questions.{name}.texts.{role} names no source: {text.source}")
        return self
