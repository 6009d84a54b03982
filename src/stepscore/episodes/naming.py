"""Instructions and policies from folder names. The rules are printed for the user, who may override them."""

from __future__ import annotations

import re
from collections.abc import Sequence

from stepscore.errors import OptionError

_NUMBERED = re.compile(
    r"(?:episode|epi|ep|demo|rollout|trial|traj|trajectory|run|sample|case|seed|take|clip|recording|video)s?"
    r"(?:[ _-]*\d+|[ _-][a-z])?"
    r"|[\d\W_]+"  # a number or a date
    r"|[0-9a-f]{8}[0-9a-f-]*",  # a hash
    re.IGNORECASE,
)

_UNSAFE = re.compile("[\x00-\x1f\x7f-\x9f\ud800-\udfff]")
_SURROGATE = re.compile("[\ud800-\udfff]")

INSTRUCTION_RULE = (
    "Instruction and task: the name of the folder that holds the video, underscores and hyphens as spaces "
    "unless it has spaces of its own; a folder whose name only numbers an episode (episode_001, demo_3, 17) "
    "gives way to the one above it."
)


def safe_name(name: str) -> str:
    """Return a name that any table and screen can hold: control characters and bytes that are no text as ``%0A``."""
    return _UNSAFE.sub(_escaped, name) if _UNSAFE.search(name) else name


def safe_text(text: str) -> str:
    """Return a text that UTF-8 can hold: halves of surrogate pairs become U+FFFD."""
    return _SURROGATE.sub("\ufffd", text)


def _escaped(match: re.Match[str]) -> str:
    try:
        content = match[0].encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        content = match[0].encode("utf-8", "surrogatepass")
    return "".join(f"%{byte:02X}" for byte in content)


def in_words(name: str) -> str:
    """Return a folder's name as words: ``put_cup-on_plate`` as "put cup on plate"; unchanged if it has spaces."""
    return name if " " in name.strip() else " ".join(re.split(r"[_-]+", name.strip("_- ")))


def is_number(name: str) -> bool:
    """Return whether a name only numbers an episode: ``episode_001``, ``demo_3``, ``17``, a date, a hash."""
    return _NUMBERED.fullmatch(name) is not None


def instruction_from(folders: Sequence[str]) -> str:
    """Return the instruction among the names of the folders above a video, the nearest one last.

    The nearest that does not number an episode; else the nearest without a digit; else the nearest.
    """
    near = [name for name in reversed(folders) if name]
    names = (
        [name for name in near if not is_number(name)] or [name for name in near if name.isalpha()] or near
    )
    return in_words(names[0]) if names else "unknown"


def policy_rule(depth: int | None) -> str:
    """Return how the policy was found, as a sentence."""
    if depth is None:
        return "Policy: unknown. --policy-from DEPTH takes it from the folder at that depth below the source."
    return f"Policy: the folder at depth {depth} below the source."


def policy_from(folders: Sequence[str], depth: int | None, episode_id: str) -> str | None:
    """Return the folder at ``depth`` (1 is the first below the source); an OptionError lists the existing ones."""
    if depth is None:
        return None
    if 1 <= depth <= len(folders):
        return folders[depth - 1]
    there = ", ".join(f"{number} = {name}" for number, name in enumerate(folders, start=1))
    raise OptionError(
        f"policy-from {depth}: episode {episode_id} has no folder at that depth below the source. "
        f"There {'is' if len(folders) == 1 else 'are'}: {there or 'none, it is in the source itself'}."
    )
