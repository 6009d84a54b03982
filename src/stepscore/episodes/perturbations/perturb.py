"""Changes to an episode, as controls: what a sane judge must answer is known beforehand.

Each function returns a new :class:`Episode` and reads no frame. Its views read lazily and have a digest of
their own, so that fingerprints, caches and resume tell it from the recorded one. Its id ends in the change
(``episode_000012~frozen-first``), ``metadata["changed"]`` lists all changes with their options in order, and
``metadata["changed_from"]`` is the id of the recorded episode. Labels follow the change, and are unknown
where it makes them so. Recorded curves speak of the recorded video and are left out. Task, policy and pair
stay, so that an episode and its controls are measured together. :data:`PERTURBATIONS` names all; see
``docs/controls.md``.
"""

from __future__ import annotations

import hashlib
import inspect
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal

from stepscore.episodes.episode import Episode
from stepscore.episodes.labels.label_intervals import SLACK_S
from stepscore.episodes.labels.labels import Labels
from stepscore.episodes.labels.subgoals import Subgoal
from stepscore.episodes.perturbations import image_perturbations as painted
from stepscore.episodes.perturbations import perturbed_labels as relabel
from stepscore.episodes.perturbations import retimed_view as timed
from stepscore.episodes.perturbations.antonyms import OPPOSITES, opposite_instruction_of
from stepscore.episodes.view import View
from stepscore.errors import OptionError, UnknownNameError


def frozen(episode: Episode, at: Literal["first", "last"] = "first") -> Episode:
    """One frame for the whole length of the episode: the ``first``, or the ``last``."""
    if at not in ("first", "last"):
        raise OptionError(f"at is {at!r}; allowed are 'first' and 'last'.")
    labels = episode.labels
    if labels.rows:
        given = _labelled(episode)
        labels = relabel.frozen_labels(given, 0.0 if at == "first" else given.last_s)
    return _retimed(episode, timed.Frozen(at == "last"), labels, "frozen", {"at": at}, at)


def reversed_(episode: Episode) -> Episode:
    """The episode played backwards, from its last frame to its first."""
    labels = relabel.reversed_labels(_labelled(episode)) if episode.labels.rows else episode.labels
    return _retimed(episode, timed.Reversed(), labels, "reversed", {}, "")


def cut(episode: Episode, to_s: float | None = None, *, share: float | None = None) -> Episode:
    """The beginning of the episode; give one of ``to_s`` and ``share``.

    Args:
        episode: What to cut.
        to_s: Keep the frames shown before this second; at least the first stays.
        share: Keep this share of the main view's duration, above 0 and at most 1.
    """
    if (to_s is None) == (share is None):
        raise OptionError("Give one of to_s and share to say where to cut.")
    given = _labelled(episode)
    if share is not None and not 0 < share <= 1:
        raise OptionError(f"share is {share}; it must be above 0 and at most 1.")
    end = float(to_s) if to_s is not None else float(share or 0.0) * given.duration_s
    if not 0 < end <= given.duration_s + SLACK_S:
        raise OptionError(
            f"Episode {episode.id} cannot be cut to {end:g} s: it runs from 0 to {given.duration_s:g} s."
        )
    change = timed.Cut(end)
    main = timed.RetimedView(_main(episode), change)
    last_s, info = float(main.timestamps()[-1]), main.info()
    labels = episode.labels
    if last_s < given.last_s:
        labels = relabel.cut_labels(given, last_s, info.duration_s)
    options = {"to_s": end} if share is None else {"share": float(share)}
    return _retimed(episode, change, labels, "cut", options, f"{end:g}s" if share is None else f"{share:g}")


def slowed(episode: Episode, factor: float = 2.0) -> Episode:
    """The same frames, each shown ``factor`` times as long; below 1 the episode runs faster."""
    if not 0 < factor < math.inf:
        raise OptionError(f"factor is {factor}; it must be above 0 and finite (2 is half as fast).")
    labels = relabel.slowed_labels(episode.labels, factor)
    change = timed.Slowed(float(factor))
    return _retimed(episode, change, labels, "slowed", {"factor": float(factor)}, f"{factor:g}")


def paused(episode: Episode, at_s: float, seconds: float = 1.0) -> Episode:
    """The frame shown at ``at_s`` stays for ``seconds`` longer; all that follows comes later."""
    end = _labelled(episode).duration_s
    if not 0 <= at_s < end:
        raise OptionError(f"at_s is {at_s:g}; episode {episode.id} runs from 0 to {end:g} s.")
    if not 0 < seconds < math.inf:
        raise OptionError(f"seconds is {seconds}; a pause must be above 0 and finite.")
    change = timed.Paused(float(at_s), float(seconds))
    labels = relabel.paused_labels(episode.labels, float(at_s), float(seconds))
    options = {"at_s": change.at_s, "seconds": change.seconds}
    return _retimed(episode, change, labels, "paused", options, f"{at_s:g}s-{seconds:g}s")


def shifted(episode: Episode, dx: int = 0, dy: int = 0, *, fill: painted.Fill = "edge") -> Episode:
    """The picture moved ``dx`` recorded pixels right and ``dy`` down; at least one is not 0.

    Args:
        episode: What to change.
        dx: Pixels to the right; negative moves left.
        dy: Pixels down; negative moves up.
        fill: What is uncovered: ``"edge"`` repeats the picture's edge, ``"black"`` is black.
    """
    if int(dx) != dx or int(dy) != dy or not (dx or dy):
        raise OptionError(f"The shift is ({dx}, {dy}); it must be whole pixels, and not (0, 0).")
    if fill not in ("edge", "black"):
        raise OptionError(f"fill is {fill!r}; allowed are 'edge' and 'black'.")
    options = {"dx": int(dx), "dy": int(dy), "fill": fill}
    suffix = f"{int(dx)}x{int(dy)}" + ("" if fill == "edge" else f"-{fill}")
    return _repainted(episode, painted.Shifted(int(dx), int(dy), fill), "shifted", options, suffix)


def zoomed(episode: Episode, factor: float = 1.15) -> Episode:
    """The middle of the picture enlarged by ``factor``, above 1; the rest is out of sight."""
    if not 1 < factor < math.inf:
        raise OptionError(f"factor is {factor}; it must be above 1 and finite.")
    change = painted.Zoomed(float(factor))
    return _repainted(episode, change, "zoomed", {"factor": change.factor}, f"{factor:g}")


def darker(episode: Episode, factor: float = 0.5) -> Episode:
    """Every value of every pixel times ``factor``, which lies between 0 and 1."""
    if not 0 < factor < 1:
        raise OptionError(f"factor is {factor}; it must lie between 0 and 1.")
    change = painted.Darker(float(factor))
    return _repainted(episode, change, "darker", {"factor": change.factor}, f"{factor:g}")


def recompressed(episode: Episode, quality: int = 40) -> Episode:
    """Every frame encoded again as JPEG of this ``quality``, 1 (worst) to 95."""
    if int(quality) != quality or not 1 <= quality <= 95:
        raise OptionError(f"quality is {quality}; it must be a whole number from 1 to 95.")
    change = painted.Recompressed(int(quality))
    return _repainted(episode, change, "recompressed", {"quality": change.quality}, str(change.quality))


def other_instruction(
    episode: Episode, text: str | None = None, *, among: Sequence[Episode] = (), seed: int = 0
) -> Episode:
    """The same video under an instruction of another task; give one of ``text`` and ``among``.

    Subgoals come with a drawn instruction; they, goal images and labels of the own task are left out. What
    is true of the new one is unknown, though mostly it was not done.

    Args:
        episode: What to change.
        text: The other instruction.
        among: Episodes to draw it from: one of those of another task, each instruction as likely.
        seed: Another seed draws another one; the draw depends on it and the episode's id alone.
    """
    if (text is None) == (not among):
        raise OptionError("Give one of text and among to say what the other instruction is.")
    subgoals: tuple[Subgoal, ...] = ()
    if text is None:
        drawn = _drawn(episode, among, seed)
        text, subgoals = drawn.instruction, drawn.subgoals
    if text.strip().lower() == episode.instruction.strip().lower():
        raise OptionError(f"The other instruction is episode {episode.id}'s own: {text!r}.")
    return _retold(episode, text, subgoals, Labels(), "other-instruction")


def opposite_instruction(episode: Episode, opposites: Mapping[str, str] = OPPOSITES) -> Episode:
    """The same video under the opposite instruction; see ``antonyms.py``.

    Where the task's success holds at the end, its opposite's does not. All else is unknown: a drawer that was
    never opened may have been closed throughout.
    """
    done = [row for row in episode.labels.rows if row.kind == "success" and math.isnan(row.start_s)]
    holds = next((row for row in reversed(done) if row.name != "ever"), None)
    rows = (replace(holds, value=0.0),) if holds is not None and holds.value >= 0.5 else ()
    text = opposite_instruction_of(episode.instruction, opposites)
    return _retold(episode, text, (), Labels(rows), "opposite-instruction")


PERTURBATIONS: Mapping[str, Callable[..., Episode]] = {
    "frozen": frozen,
    "reversed": reversed_,
    "cut": cut,
    "slowed": slowed,
    "paused": paused,
    "shifted": shifted,
    "zoomed": zoomed,
    "darker": darker,
    "recompressed": recompressed,
    "other-instruction": other_instruction,
    "opposite-instruction": opposite_instruction,
}
"""Every change by name."""


def perturb(episode: Episode, name: str, **options: Any) -> Episode:
    """The episode under the change called ``name``: ``changed(episode, "shifted", dx=8)``."""
    if name not in PERTURBATIONS:
        raise UnknownNameError("change", name, PERTURBATIONS)
    valid = [option for option in inspect.signature(PERTURBATIONS[name]).parameters if option != "episode"]
    for option in options:
        if option not in valid:
            raise UnknownNameError("option", option, valid, where=f"the change {name!r}")
    return PERTURBATIONS[name](episode, **options)


def _main(episode: Episode) -> View:
    """The first view; an EpisodeError where there is none."""
    return episode.view(episode.main_view)


def _labelled(episode: Episode) -> relabel.Labelled:
    """The labels with the main view's times, from its headers."""
    main = _main(episode)
    last_s, duration_s = float(main.timestamps()[-1]), main.info().duration_s
    return relabel.Labelled(episode.labels, episode.subgoals, last_s, duration_s)


def _retimed(
    episode: Episode,
    change: timed.TimeChange,
    labels: Labels,
    name: str,
    options: Mapping[str, object],
    suffix: str,
) -> Episode:
    _main(episode)
    views = {view: timed.RetimedView(kept, change) for view, kept in episode.views.items()}
    return replace(_marked(episode, name, options, suffix), views=views, labels=labels)


def _repainted(
    episode: Episode, change: painted.ImagePerturbation, name: str, options: Mapping[str, object], suffix: str
) -> Episode:
    """What is true of the scene stays true however it looks: labels are kept."""
    _main(episode)
    views = {view: painted.RepaintedView(kept, change) for view, kept in episode.views.items()}
    return replace(_marked(episode, name, options, suffix), views=views)


def _retold(episode: Episode, text: str, subgoals: tuple[Subgoal, ...], labels: Labels, name: str) -> Episode:
    suffix = hashlib.sha256(text.encode()).hexdigest()[:8]
    marked = _marked(episode, name, {"instruction": text}, suffix)
    return replace(marked, instruction=text, subgoals=subgoals, labels=labels, goals={})


def _marked(episode: Episode, name: str, options: Mapping[str, object], suffix: str) -> Episode:
    """The episode under the changed id, with the change noted and without recorded curves."""
    before = episode.metadata.get("changed", ())
    noted = (*(before if isinstance(before, tuple) else ()), {"change": name, **options})
    metadata = {"changed_from": episode.id, **episode.metadata, "changed": noted}
    return replace(
        episode, id=f"{episode.id}~{name}" + (f"-{suffix}" if suffix else ""), metadata=metadata, recorded=()
    )


def _drawn(episode: Episode, among: Sequence[Episode], seed: int) -> Episode:
    own = episode.task or episode.instruction
    others: dict[str, Episode] = {}
    for other in among:
        if (other.task or other.instruction) != own and other.instruction != episode.instruction:
            others.setdefault(other.instruction, other)
    if not others:
        raise OptionError(
            f"None of the {len(among)} episodes has another task than {episode.id} ({own!r}); "
            "draw among episodes of several tasks, or give text."
        )
    number = int.from_bytes(hashlib.sha256(f"{seed}\0{episode.id}".encode()).digest()[:8])
    return others[sorted(others)[number % len(others)]]
