"""Episode: one recorded rollout, as a handle that reads on demand."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from pathlib import Path

from stepscore._untrusted import check_hashable, check_regular, shown
from stepscore.episodes.clip import Clip
from stepscore.episodes.goals.goal_frame import GoalFrame
from stepscore.episodes.labels.labels import Labels
from stepscore.episodes.labels.subgoals import Subgoal
from stepscore.episodes.sampling import sample_indices
from stepscore.episodes.signals import Signal, SignalReader
from stepscore.episodes.view import View, ViewInfo
from stepscore.errors import EpisodeError, OptionError, UnknownNameError
from stepscore.types import SuccessMode


@dataclass(frozen=True)
class Episode:
    """One recorded rollout. Creating one reads nothing; frames are decoded on request.

    Attributes:
        id: POSIX path relative to the source without suffix; LeRobot: ``episode_000012``.
        instruction: The text the robot was given.
        source: The source it was found in.
        source_index: Its number in the source where the source numbers them (LeRobot), else ``None``.
        task: The task's name; several instructions may share one.
        policy: The policy that acted; ``None`` where the source does not state it. Never guessed.
        robot: The robot's name, ``None`` where not known.
        dataset: The dataset's or benchmark's name, ``None`` where not known.
        views: Cameras by name, the main one first. Empty for an episode that has only a recorded curve.
        goals: Goal image per view where there is one: a file, or a frame of another episode.
        pair: Scene or seed shared between policies, so that comparisons can be paired; may be ``None``.
        subgoals: Ordered subgoals.
        success_mode: When its success counts, where the task says so.
        labels: Success, subgoals, stages and progress that are known to be true.
        recorded: Files beside it in which another tool may have written its curve; two are ambiguous.
        signal_reader: Reads what was recorded beside its videos, such as state and action; ``None`` where its
            format has nothing of the kind. See :meth:`signals`.
        metadata: Further fields of the source.
        error: Why it cannot be read, where its reader knows already; asking for its frames raises an EpisodeError.
        inferred_instruction: Whether the source states no instruction, so that names of folders gave it.
    """

    id: str
    instruction: str
    source: str = ""
    source_index: int | None = None
    task: str | None = None
    policy: str | None = None
    robot: str | None = None
    dataset: str | None = None
    views: Mapping[str, View] = field(default_factory=dict)
    goals: Mapping[str, Path | GoalFrame] = field(default_factory=dict)
    pair: str | None = None
    subgoals: tuple[Subgoal, ...] = ()
    success_mode: SuccessMode | None = None
    labels: Labels = field(default_factory=Labels)
    recorded: tuple[Path, ...] = ()
    signal_reader: SignalReader | None = None
    metadata: Mapping[str, object] = field(default_factory=dict)
    error: str | None = None
    inferred_instruction: bool = False

    def check(self) -> None:
        """Raise EpisodeError where the episode cannot be read."""
        if self.error is not None:
            raise EpisodeError(self.error)

    @cached_property
    def fingerprint(self) -> str:
        """sha256 of its frames, goal images and recorded files; changes when one of them does."""
        self.check()
        digest = hashlib.sha256()
        for name in sorted(self.views):
            digest.update(name.encode("utf-8", "replace") + b"\0" + self.views[name].digest())
        for name in sorted(self.goals):
            goal = self.goals[name]
            content = goal.digest() if isinstance(goal, GoalFrame) else content_digest(goal)
            digest.update(b"goal " + name.encode("utf-8", "replace") + b"\0" + content)
        for path in self.recorded:
            digest.update(path.name.encode("utf-8", "replace") + b"\0" + content_digest(path))
        return digest.hexdigest()

    @property
    def main_view(self) -> str:
        """Name of the view that a judge of a single view looks at: the first."""
        self.check()
        if not self.views:
            raise EpisodeError(f"Episode {self.id} has no video.")
        return next(iter(self.views))

    def view(self, name: str | None = None) -> View:
        """Return the view called ``name``; without a name, the only one. An error lists the valid names."""
        self.check()
        if not self.views:
            raise EpisodeError(f"Episode {self.id} has no video.")
        if name is None:
            if len(self.views) > 1:
                raise OptionError(
                    f"Episode {self.id} has several views: {', '.join(self.views)}. Name one: view=..."
                )
            return self.views[self.main_view]
        if name not in self.views:
            raise UnknownNameError("view", name, self.views, where=f"episode {self.id}")
        return self.views[name]

    def with_views(self, names: Sequence[str]) -> Episode:
        """Return the same episode with only these views, in this order."""
        for name in names:
            self.view(name)
        return replace(self, views={name: self.views[name] for name in names})

    @cached_property
    def info(self) -> ViewInfo | None:
        """Frame count, rate and duration of the main view; ``None`` for an episode without video."""
        self.check()
        return self.views[self.main_view].info() if self.views else None

    def signals(self) -> tuple[Signal, ...]:
        """Read the numbers recorded beside its videos, state and action first; empty where there are none.

        Raises:
            EpisodeError: The source should have them, and cannot be read.
        """
        self.check()
        return self.signal_reader.read() if self.signal_reader is not None else ()

    def clip(
        self,
        view: str | None = None,
        *,
        count: int | None = None,
        indices: Sequence[int] | None = None,
        times: Sequence[float] | None = None,
        fps: float | None = None,
        size: int | None = None,
    ) -> Clip:
        """Decode frames of one view with their timestamps; give exactly one of count, indices, times and fps.

        Args:
            view: The view's name; may be left out when there is only one.
            count: This many frames spread evenly from the first to the last; all, where there are fewer.
            indices: These frames, counted from the episode's first.
            times: The frame shown at each of these seconds.
            fps: The frame shown at every 1/fps seconds from the start.
            size: Longer side in pixels, keeping the aspect ratio; ``None`` keeps the recorded size.
        """
        chosen = self.view(view)
        at = chosen.timestamps()
        where = f"episode {self.id}"
        picked = sample_indices(at, where, count=count, indices=indices, times=times, fps=fps)
        return Clip(chosen.read(picked.tolist(), size), at[picked], picked)


def content_digest(path: Path) -> bytes:
    """Return the sha256 of a whole file. Tables of curves change in the middle, and episodes may share one."""
    status = check_hashable(path, EpisodeError)
    try:
        return _content_digest(path, status.st_mtime_ns, status.st_size)
    except OSError as error:
        raise EpisodeError(f"Cannot read {shown(path)}: {error.strerror or error}.") from error


@lru_cache(maxsize=64)
def _content_digest(path: Path, mtime_ns: int, size: int) -> bytes:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").digest()


def file_digest(path: Path) -> bytes:
    """Return the sha256 of a file's size and its first and last 64 KiB: cheap, and new for a replaced video."""
    part = 64 * 1024
    digest = hashlib.sha256()
    check_regular(path, EpisodeError)
    try:
        with path.open("rb") as file:
            size = file.seek(0, 2)
            digest.update(str(size).encode() + b"\0")
            file.seek(0)
            digest.update(file.read(part))
            file.seek(max(part, size - part))
            digest.update(file.read(part))
    except OSError as error:
        raise EpisodeError(f"Cannot read {shown(path)}: {error.strerror or error}.") from error
    return digest.digest()
