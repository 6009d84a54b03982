"""Instructions and policies from folder names. The rules are printed for the user, who may override them."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Sequence

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


MAIN = "main"
"""The name of an episode's only view where nothing names it."""

PLACES = (
    *("high", "low", "top", "bottom", "front", "back", "rear", "side", "left", "right", "center", "middle"),
    *("overhead", "wrist", "hand", "gripper", "head", "chest", "shoulder", "ego", "exo", "external"),
    *("exterior", "scene", "primary", "secondary", "third_person", "eye_in_hand", "over_shoulder"),
    *("agentview", "frontview", "sideview", "birdview", "topview"),
)
"""Words for a camera's position. They may be joined (``left_wrist``) and come before or after ``cam``."""

_PLACE = "(?:" + "|".join(word.replace("_", "[_ -]?") for word in PLACES) + ")"
_CAMERA = (
    r"(?:cam[_-](?:\d+|[a-z]+(?:[_-][a-z]+)*\d?)"  # cam_0, cam_high, cam_left_wrist
    r"|(?:cam|camera|view)[_-]?\d+"  # cam0, camera_1
    rf"|(?:(?:camera|view|image|robot\d)[_-])?{_PLACE}(?:[_-]{_PLACE})*"  # wrist, left_wrist, camera_top
    r"(?:[_-]?(?:cam|camera|view|image|rgb)(?:[_-]?\d)?)?)"  # wrist_cam, top_view, front_image_1
)
_FEATURE = r"(?:observation[._]images?[._])?"  # LeRobot's prefix of a camera, left out of its name
_NAME = re.compile(rf"{_FEATURE}(?P<camera>{_CAMERA})", re.IGNORECASE)
_SUFFIX = re.compile(rf"(?P<stem>.+?)[_. -]{_FEATURE}(?P<camera>{_CAMERA})", re.IGNORECASE)
_SIDES = ("left", "right")


def camera_name(stem: str) -> str | None:
    """Return the camera that a whole name denotes: ``cam_*``, ``cam0``, ``wrist``, ``left_wrist``, ``top_view``."""
    found = _NAME.fullmatch(stem)
    return found["camera"] if found else None


def split_camera(stem: str) -> tuple[str, str] | None:
    """Split ``ep1_cam_high`` into ``("ep1", "cam_high")``; ``None`` where the name does not end in a camera."""
    found = None if camera_name(stem) else _SUFFIX.fullmatch(stem)
    return (found["stem"], found["camera"]) if found else None


def views_of_folder(stems: Sequence[str], *, numbered: bool) -> dict[str, str] | None:
    """Return camera to stem where the files of a folder are the cameras of one episode; else ``None``.

    They are when every one has a camera's name and there are two or more, or one where the folder's name
    only numbers an episode (``numbered``).
    """
    views = {camera_name(stem): stem for stem in stems}
    if None in views or not (numbered or _several(views)):
        return None
    return {camera: views[camera] for camera in main_first(filter(None, views))}


def views_by_stem(stems: Sequence[str]) -> dict[str, dict[str, str]]:
    """Return episode name to views (camera to stem), from sibling names such as ``<name>_cam_high``.

    A name ends in a camera where it ends in ``cam_...``, where another file of the same name has another
    camera, or where its camera was found that way elsewhere in the folder. A file without a camera joins the
    cameras of its name as the main view.
    """
    split = {stem: split_camera(stem) for stem in stems}
    groups: dict[str, dict[str, str]] = defaultdict(dict)
    for stem, parts in split.items():
        name, camera = parts or (stem, MAIN)
        groups[name][camera] = stem
    known = {camera for views in groups.values() if _several(views) for camera in views}
    episodes: dict[str, dict[str, str]] = {}
    for name, views in groups.items():
        if _several(views) or all(c in known or c.lower().startswith("cam_") for c in views):
            episodes[name] = {camera: views[camera] for camera in main_first(views)}
        else:
            episodes.update({stem: {camera_name(stem) or MAIN: stem} for stem in views.values()})
    return episodes


def _several(cameras: Iterable[str | None]) -> bool:
    # "turn_left" beside "turn_right" or "turn" is another episode, not another camera.
    names = {camera.lower() for camera in cameras if camera}
    return len(names) > 1 and bool(names - {*_SIDES, MAIN})


def main_first(names: Iterable[str]) -> list[str]:
    """Return the names with the view of the whole scene first and those on the robot's hands last."""

    def rank(name: str) -> tuple[int, str]:
        lower = name.lower()
        if lower == MAIN:
            return 0, lower
        if any(word in lower for word in ("wrist", "hand", "gripper")):
            return 3, lower
        return (2 if lower in _SIDES else 1), lower

    return sorted(names, key=rank)
