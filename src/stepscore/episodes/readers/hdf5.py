"""HDF5 files of robomimic and LIBERO (many demonstrations per file) and of ACT (one per file).

robomimic, LIBERO::

    data                        attrs: env_args; LIBERO: problem_info, macros_image_convention
      demo_0                    attrs: RoboCasa: ep_meta
        obs/agentview_rgb       (T, H, W, 3) uint8; robomimic: agentview_image
        obs/eye_in_hand_rgb
        obs/robot0_eef_pos      (T, 3), and other numbers
        actions                 (T, A)
        rewards                 (T,)

ACT, ALOHA::

    observations/images/cam_high    (T, H, W, 3) uint8, or JPEG bytes padded to a common length, (T, L)
    observations/qpos               (T, D)
    action                          (T, A)

The orientation of LIBERO's images is in the file: robosuite renders with OpenGL, whose first row is the lowest, and
LIBERO's create_dataset.py stores that as it is and notes ``macros_image_convention`` = "opengl". Where the attribute
has that value the rows are reversed. robomimic reverses them itself before it writes.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any, Literal

import numpy as np

from stepscore._untrusted import parse_json
from stepscore._untrusted.hdf5_access import (
    attribute,
    checked_dataset,
    is_group,
    member,
    members,
    open_h5,
)
from stepscore._untrusted.limits import MAX_FPS, MAX_FRAMES, MIN_FPS
from stepscore.episodes.cameras import main_first
from stepscore.episodes.episode import Episode
from stepscore.episodes.labels.labels import Label, Labels
from stepscore.episodes.naming import instruction_from, policy_from, policy_rule, safe_name
from stepscore.episodes.readers.hdf5_signals import Hdf5Signals
from stepscore.episodes.readers.scan import Folder, first_file, scan
from stepscore.episodes.source import Listing, Problem, ReadOptions
from stepscore.episodes.video.hdf5_images import (
    Hdf5ArrayView,
    Hdf5Images,
    is_encoded_images,
    is_raw_images,
)
from stepscore.episodes.video.image_files import ImageSequenceView
from stepscore.episodes.view import View
from stepscore.errors import SourceError, StepScoreError, VideoError

SUFFIXES = (".hdf5", ".h5")
ROBOSUITE_FPS = 20.0
"""robosuite's default control frequency, at which robomimic and LIBERO record."""
ACT_FPS = 50.0
"""ACT's control step is DT = 0.02 s (constants.py)."""

_CAMERA = re.compile(r"(?P<camera>.+?)_(?:image|rgb|img)")
_INSTRUCTION_FIELDS = ("language_instruction", "instruction", "language", "lang", "task")
_RULES = (
    "Id: the file's path below the source without suffix; robomimic and LIBERO: then the demonstration.",
    "Instruction: robomimic and LIBERO: ep_meta, problem_info or env_args, else the environment's name; ACT: "
    "an attribute of the file (instruction, task ...), else the name of its folder.",
    f"Frames per second: env_args' control_freq, else {ROBOSUITE_FPS:g} (robosuite's default); ACT: the file's "
    f"attribute fps, else {ACT_FPS:g} (its DT is 0.02 s).",
    "Images: rows reversed where macros_image_convention is opengl (LIBERO); otherwise as stored.",
    "Success: whether a reward is 1, where all rewards are 0 or 1; unknown otherwise.",
    "Signals: arrays of numbers among the observations, and the actions.",
)


class Hdf5Reader:
    """One HDF5 file, or a folder of them. Needs the ``hdf5`` extra."""

    def matches(self, path: Path) -> bool:
        """Return whether ``path`` is an HDF5 file by its suffix, or a folder with one in it or one folder below.

        A folder whose first file has another content (joint logs beside videos) is left to other readers.
        """
        if not path.is_dir():
            return path.suffix.lower() in SUFFIXES
        first = first_file(path, lambda name: name.lower().endswith(SUFFIXES), depth=1)
        if first is None:
            return False
        try:
            with open_h5(first) as file:
                return _file_format(file) is not None
        except (StepScoreError, OSError):
            return True  # reading it will report what is wrong

    def read(self, path: Path, options: ReadOptions) -> Listing:
        """List the episodes of a file or of all files in a folder; in a folder, a bad file is a problem."""
        rules = (*_RULES, policy_rule(options.policy_from))
        if path.is_file():
            try:
                episodes = _read_file(path, Folder(path.parent, (), ()), path, options)
            except VideoError as error:
                raise SourceError(str(error)) from error
            return Listing(sorted(episodes, key=_by_id), (), rules)
        folders, problems = scan(path, SUFFIXES)
        in_folder: list[Episode] = []
        for folder in folders:
            for name in folder.files:
                if name.lower().endswith(SUFFIXES):
                    try:
                        in_folder += _read_file(folder.path / name, folder, path, options)
                    except (SourceError, VideoError) as error:
                        problems.append(Problem(folder.id_of(name), str(error)))
        return Listing(sorted(in_folder, key=_by_id), tuple(problems), rules)


def _by_id(episode: Episode) -> str:
    return episode.id


def _read_file(path: Path, folder: Folder, source: Path, options: ReadOptions) -> list[Episode]:
    """Read the episodes of one file; ids begin with the file's name unless it is the whole source."""
    with open_h5(path) as file:
        file_format = _file_format(file)
        if file_format == "robomimic":
            prefix = "" if path == source else folder.id_of(path.stem) + "/"
            drafts = list(_robomimic(file, path, prefix))
        elif file_format == "act":
            drafts = [_act(file, path, folder)]
        else:
            raise SourceError(
                f"{path} is neither robomimic's or LIBERO's (data/demo_0/obs/...) nor ACT's layout "
                f"(observations/images/...). It has: {', '.join(sorted(islice(file, 20))) or 'nothing'}."
            )
    if not drafts:
        raise SourceError(f"{path} has no demonstrations.")
    depth = options.policy_from
    return [
        replace(draft, source=str(source), policy=policy_from(folder.parts, depth, draft.id))
        for draft in drafts
    ]


def _file_format(file: Any) -> Literal["robomimic", "act"] | None:
    if is_group(member(file, "data")):
        return "robomimic"
    return "act" if is_group(member(file, "observations/images")) else None


def _robomimic(file: Any, path: Path, prefix: str) -> Iterator[Episode]:
    data = member(file, "data")
    where = f"{path}:data"
    env, problem = _json(data, "env_args", where), _json(data, "problem_info", where)
    settings = env.get("env_kwargs")
    settings = settings if isinstance(settings, dict) else {}
    fps = _rate(settings.get("control_freq")) or ROBOSUITE_FPS
    bottom_up = _text(attribute(data, "macros_image_convention")).lower() == "opengl"
    name = _text(env.get("env_name")) or path.stem
    robots = settings.get("robots")
    defaults = Episode(
        id="",
        instruction=" ".join(re.split(r"[_\s]+|(?<=[a-z])(?=[A-Z])", name)),
        task=name,
        robot=_text(robots[0] if isinstance(robots, list) and len(robots) == 1 else robots) or None,
        metadata={"env_name": env["env_name"]} if "env_name" in env else {},
    )
    for key in data:
        episode = replace(defaults, id=safe_name(f"{prefix}{key}"))
        try:
            demo = member(data, key)
            if not is_group(demo):
                continue
            text = _first_text(_json(demo, "ep_meta", f"{where}/{key}"), problem, env)
            views = {
                camera: Hdf5ArrayView(path, f"data/{key}/obs/{name}", fps, bottom_up)
                for camera, name in _cameras(member(demo, "obs")).items()
            }
            labels = _success(demo, f"{where}/{key}/rewards")
        except (
            Exception
        ) as error:  # h5py raises many kinds on damaged objects; the other demonstrations may be fine
            why = str(error) if isinstance(error, StepScoreError) else f"{type(error).__name__}: {error}"
            yield replace(episode, error=f"{where}/{key}: {why}")
            continue
        if text:
            episode = replace(episode, instruction=text, task=text)
        signals = Hdf5Signals(path, f"data/{key}/obs", f"data/{key}/actions", fps)
        yield replace(episode, views=views, labels=labels, signal_reader=signals)


def _cameras(observations: Any) -> dict[str, str]:
    """Return dataset by camera, the main one first."""
    if not is_group(observations):
        return {}
    cameras = {
        (match["camera"] if (match := _CAMERA.fullmatch(name)) else name): name
        for name, found in members(observations)
        if is_raw_images(found)
    }
    return {camera: cameras[camera] for camera in main_first(cameras)}


def _act(file: Any, path: Path, folder: Folder) -> Episode:
    images = member(file, "observations/images")
    fps = _rate(attribute(file, "fps")) or ACT_FPS
    views: dict[str, View] = {}
    for camera in main_first(images):
        name = f"observations/images/{camera}"
        found = member(images, camera)
        if is_raw_images(found):
            views[camera] = Hdf5ArrayView(path, name, fps)
        elif is_encoded_images(found):
            views[camera] = ImageSequenceView(Hdf5Images(path, name, len(found)), fps)
    text = _first_text(
        {key: attribute(file, key) for key in _INSTRUCTION_FIELDS},
        {key: _scalar(member(file, key), f"{path}:{key}") for key in _INSTRUCTION_FIELDS},
    )
    instruction = text or instruction_from((path.resolve().parents[len(folder.parts)].name, *folder.parts))
    return Episode(
        id=folder.id_of(path.stem),
        instruction=instruction,
        inferred_instruction=not text,
        task=instruction,
        views=views,
        signal_reader=Hdf5Signals(path, "observations", "action", fps),
    )


def _scalar(found: Any, where: str) -> object:
    """Return the value of a dataset of one cell; ``None`` for anything else."""
    if found is None or getattr(found, "shape", None) != ():
        return None
    value: object = checked_dataset(found, where)[()]
    return value


def _success(demo: Any, where: str) -> Labels:
    """Return success from the rewards; ``dones`` only marks the end, whether it was a success or not."""
    found = member(demo, "rewards")
    if found is None:
        return Labels()
    stored = checked_dataset(found, where)
    if stored.dtype.kind not in "fiub" or not stored.shape or stored.size > MAX_FRAMES:
        return Labels()
    rewards = np.asarray(stored, dtype=np.float64)
    if not len(rewards) or not np.isin(rewards, (0.0, 1.0)).all():
        return Labels()  # shaped rewards: no value means success
    return Labels((Label("success", "ever", value=float(rewards.max()), author="rewards"),))


def _first_text(*places: Mapping[str, object]) -> str:
    """Return the first instruction among the fields in which these formats keep one."""
    return next(
        (text for place in places for key in _INSTRUCTION_FIELDS if (text := _text(place.get(key)))), ""
    )


def _text(value: object) -> str:
    """Return an attribute as text: h5py gives bytes or str, LIBERO also a list of characters, in quotes."""
    if isinstance(value, bytes):
        value = value.decode("utf-8", "replace")
    if isinstance(value, list) and all(isinstance(part, str) for part in value):
        value = "".join(value)
    return value.strip().strip('"').strip() if isinstance(value, str) else ""


def _json(found: Any, name: str, where: str) -> dict[str, Any]:
    """Return an attribute that is a JSON object; empty where there is none."""
    text = _text(attribute(found, name)) or "{}"
    content = parse_json(text, f"{where}: the attribute {name}", SourceError)
    return content if isinstance(content, dict) else {}


def _rate(value: object) -> float | None:
    try:
        number = float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):
        return None
    return number if MIN_FPS <= number <= MAX_FPS else None
