"""Profiles of published reward models: how each is asked and read, as declared in ``judges/published/*.yaml``.

The format is described in ``profile.py``. A profile holds no prompt text: it names where the text is published, and
the text is fetched on first use (``prompt_texts.py``) and checked by its sha256.
"""

from stepscore.judges.published.profiles.catalog import (
    Licence,
    find_checkpoint,
    load_profile,
    model_licence,
    parse_profile,
    profile_names,
    published_checkpoints,
)
from stepscore.judges.published.profiles.profile import (
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
from stepscore.judges.published.profiles.prompt_texts import (
    digest,
    fetch_texts,
    published_text,
    source_url,
    text_of,
    without_fetching,
)

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
