"""Profiles of published reward models: how each is asked and read, as declared in ``published/*.yaml``.

The format is described in ``profile.py``. A profile holds no prompt text: it names where the text is published, and
the text is fetched on first use (``prompt_texts.py``, ``fetching.py``) and checked by its sha256.
"""

from stepscore.models.profiles.catalog import (
    find_checkpoint,
    load_profile,
    parse_profile,
    profile_names,
    published_checkpoints,
)
from stepscore.models.profiles.fetching import digest, source_url
from stepscore.models.profiles.licences import Licence, model_licence
from stepscore.models.profiles.profile import (
    AnswerRule,
    Checkpoint,
    Images,
    Profile,
    PromptText,
    Question,
    Sampling,
    Slot,
    SourceFile,
    VideoRule,
)
from stepscore.models.profiles.prompt_texts import fetch_texts, published_text, text_of, without_fetching

__all__ = [
    "AnswerRule",
    "Checkpoint",
    "Images",
    "Licence",
    "Profile",
    "PromptText",
    "Question",
    "Sampling",
    "Slot",
    "SourceFile",
    "VideoRule",
    "digest",
    "fetch_texts",
    "find_checkpoint",
    "load_profile",
    "model_licence",
    "parse_profile",
    "profile_names",
    "published_checkpoints",
    "published_text",
    "source_url",
    "text_of",
    "without_fetching",
]
