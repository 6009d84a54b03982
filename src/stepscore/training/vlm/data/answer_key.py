"""The right answers to a judge's questions about a labelled episode.

The question itself states which time it is about: by the frames of the main view that it names.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from stepscore.episodes import Episode
from stepscore.episodes.labels import (
    LABEL_TOLERANCE_S,
    POTENTIAL,
    Labels,
    Truth,
    subgoal_truth,
    success_truth,
)
from stepscore.errors import EpisodeError
from stepscore.judges import StepEval, subgoal_prompt_text
from stepscore.models import FrameRef, Generate, Prompt, Score, TiledFrames
from stepscore.types import FloatArray

DIRECT = "Therefore, the estimated progress is <progress>"
"""Beginning of an answer to procvlm's question that leaves the remaining actions out."""


IN_SUBGOALS_FILE = "Add them in a subgoals file (YAML)."
IN_LABELS_FILE = "Add it in a labels file (csv, jsonl, parquet)."
"""Remedies for missing labels. No option of a command: which one reads the file depends on who asks."""


class UnlabelledTimeError(EpisodeError):
    """The labels do not cover the time a question is about; they may cover another."""


@dataclass(frozen=True, eq=False)
class EpisodeTruth:
    """The labels of an episode at any time in it.

    An EpisodeError names what has no label anywhere in the episode, an :class:`UnlabelledTimeError` what has none
    at the time in question.
    """

    episode: Episode

    @cached_property
    def times(self) -> FloatArray:
        """Timestamps of the main view's frames in seconds."""
        if not self.episode.views:
            raise EpisodeError(f"Episode {self.episode.id} has no video to ask about.")
        return self.episode.views[self.episode.main_view].timestamps()

    @cached_property
    def subgoals(self) -> tuple[Truth, ...]:
        """When each subgoal was true."""
        if not self.episode.subgoals:
            raise self._missing("subgoals", IN_SUBGOALS_FILE)
        rows = tuple(row for row in self.episode.labels.rows if row.kind == "subgoal")
        labelled = {row.name for row in rows}
        absent = [s.name for s in self.episode.subgoals if s.name not in labelled]
        if absent:
            names = ", ".join(repr(name) for name in absent)
            raise self._missing(f"label of the subgoal(s) {names}", IN_LABELS_FILE)
        last_s = float(self.times[-1])
        subgoals = self.episode.subgoals
        return tuple(subgoal_truth(Labels(rows), s.name, s.mode, last_s) for s in subgoals)

    def reached(self, number: int, at_s: float) -> bool:
        """Return whether subgoal ``number`` (from 0) counts at a time: true by then (ever), or then (holds)."""
        subgoal = self.episode.subgoals[number]
        known = self.subgoals[number].at_end(subgoal.mode, at_s)
        if known is None and self._is_last(at_s):
            known = self.episode.labels.subgoal(subgoal.name)
        if known is None:
            raise self._unlabelled(f"whether the subgoal {subgoal.name!r} was reached", at_s)
        return known

    def succeeded(self, at_s: float) -> bool:
        """Return whether the task's success counts at a time, by the episode's mode."""
        labels = self.episode.labels
        if not any(row.kind == "success" for row in labels.rows):
            raise self._missing("success label", IN_LABELS_FILE)
        mode = self.episode.success_mode or labels.success_mode or "holds"
        known = self._success.at_end(mode, at_s)
        if known is None and self._is_last(at_s):
            known = labels.success
        if known is None:
            raise self._unlabelled("whether the task was done", at_s)
        return known

    @cached_property
    def _success(self) -> Truth:
        return success_truth(self.episode.labels, float(self.times[-1]))

    @cached_property
    def _progress(self) -> tuple[FloatArray, FloatArray]:
        labels, names = self.episode.labels, self.episode.labels.potentials
        if len(names) > 1 and POTENTIAL not in names:
            listed = ", ".join(repr(name) for name in names)
            raise EpisodeError(
                f"Episode {self.episode.id} has progress labels of several names ({listed}), and none is "
                f"called {POTENTIAL!r}. Keep those of one name."
            )
        times, values = labels.progress(POTENTIAL if POTENTIAL in names else None)
        if np.all(np.isnan(values)):
            raise self._missing("progress labels", IN_LABELS_FILE)
        return times, values

    def progress_at(self, times: FloatArray) -> FloatArray:
        """Return the progress potential at each time, linear between two labelled times.

        NaN before the first labelled time, after the last, and next to a label without a value.
        """
        at, values = self._progress
        # Tables of labels may keep rounded seconds: the last frame is not after the last label for that.
        near = np.where(np.abs(times - at[0]) < LABEL_TOLERANCE_S, at[0], times)
        near = np.where(np.abs(times - at[-1]) < LABEL_TOLERANCE_S, at[-1], near)
        return np.asarray(np.interp(near, at, values, left=np.nan, right=np.nan))

    def progress(self, at_s: float) -> float:
        """Return the progress potential at a time, as :meth:`progress_at` does."""
        (known,) = self.progress_at(np.array([at_s]))
        if np.isnan(known):
            raise self._unlabelled("how far the task was", at_s)
        return float(known)

    def remaining(self, at_s: float) -> list[str]:
        """Return the steps not done at a time, in order: subgoals, or stages where the episode has none.

        A subgoal with mode ``ever`` is done once it was true, and stays so. The stages of a success are a
        whole procedure; those of a failure only say what was tried.
        """
        subgoals = self.episode.subgoals
        if subgoals:
            return [s.name for k, s in enumerate(subgoals) if not self.reached(k, at_s)]
        labels = self.episode.labels
        if not labels.stages or not labels.success:
            raise self._missing(
                "subgoals, and no stages of a success",
                "Add subgoals in a subgoals file, or stages in a labels file.",
            )
        unfinished = (
            [] if self._is_last(at_s) else [s for s in labels.stages if s.end_s > at_s + LABEL_TOLERANCE_S]
        )
        return list(dict.fromkeys(stage.name for stage in unfinished))

    def _is_last(self, at_s: float) -> bool:
        return at_s >= float(self.times[-1]) - LABEL_TOLERANCE_S

    def _missing(self, what: str, repair: str) -> EpisodeError:
        return EpisodeError(f"Episode {self.episode.id} has no {what}: no right answer is known. {repair}")

    def _unlabelled(self, what: str, at_s: float) -> UnlabelledTimeError:
        return UnlabelledTimeError(
            f"Episode {self.episode.id}: the labels do not say {what} at {at_s:.2f} s. Labels with times "
            "(start_s, end_s) cover every frame."
        )


def frame_times(prompt: Prompt, truth: EpisodeTruth) -> list[float]:
    """Return the timestamps of the main view's frames in a question, in the order of the prompt."""
    main = truth.episode.main_view
    return [float(truth.times[frame.index]) for frame in _frame_refs(prompt) if frame.view == main]


def _frame_refs(prompt: Prompt) -> list[FrameRef]:
    frames: list[FrameRef] = []
    for part in (part for turn in prompt.turns for part in turn.parts):
        if isinstance(part, TiledFrames):
            frames += part.frames
        elif isinstance(part, FrameRef):
            frames.append(part)
    return frames


def stepeval_answer(judge: StepEval, request: Generate | Score, truth: EpisodeTruth) -> str:
    """Return the verdicts at the last frame of the question: the JSON asked for, or one of the two words."""
    times = frame_times(request.prompt, truth)
    if isinstance(request, Generate) and judge.strategy == "all-at-once":
        entries = [_entry(judge, k, times, truth, numbered=True) for k in range(len(truth.episode.subgoals))]
        return f'{{"subgoals": [{", ".join(entries)}]}}'
    number = _subgoal_number(request.prompt, truth.episode)
    if isinstance(request, Score):
        return request.candidates[0 if truth.reached(number, times[-1]) else 1]
    return _entry(judge, number, times, truth)


def _subgoal_number(prompt: Prompt, episode: Episode) -> int:
    """Return which subgoal a question is about, counted from 0, by the line that states it."""
    views, count = tuple(episode.views), len(episode.subgoals)
    # The text after the last image; an instruction precedes the first.
    lines = str(prompt.turns[-1].parts[-1]).split("\n")
    for number, subgoal in enumerate(episode.subgoals):
        if f"Subgoal {number + 1} of {count}: {subgoal_prompt_text(subgoal, views)}" in lines:
            return number
    raise EpisodeError(f"Episode {episode.id}: a question names none of its {count} subgoals: {lines}.")


def _entry(
    judge: StepEval, number: int, times: Sequence[float], truth: EpisodeTruth, *, numbered: bool = False
) -> str:
    """Return one verdict as a JSON object, its keys in the prompt's order, the time as written in the prompt."""
    reached = truth.reached(number, times[-1])
    fields = [f'"number": {number + 1}'] if numbered else []
    if judge.reason:
        fields.append(f'"why": "{_reason(number, times, truth, reached=reached)}"')
    fields.append(f'"answer": "{"yes" if reached else "no"}"')
    if judge.when:
        first = _first_true(number, times, truth)[0] if reached else None
        fields.append(f'"when": {"null" if first is None else f"{times[first]:.2f}"}')
    return f"{{{', '.join(fields)}}}"


def _first_true(number: int, times: Sequence[float], truth: EpisodeTruth) -> tuple[int, bool]:
    """Return the first frame in which a reached subgoal is true, and True; or the first after it, and False."""
    known = truth.subgoals[number]
    held = [known.held(at) for at in times]
    if True in held and None not in held[: held.index(True)]:
        return held.index(True), True
    happened = [known.happened(at) for at in times]
    if True not in happened or None in happened[: happened.index(True)]:
        name = truth.episode.subgoals[number].name
        raise UnlabelledTimeError(
            f"Episode {truth.episode.id}: the labels do not say when the subgoal {name!r} came true. Label it "
            "with start_s, or ask with reason=false and when=false."
        )
    return happened.index(True), False


def _reason(number: int, times: Sequence[float], truth: EpisodeTruth, *, reached: bool) -> str:
    if reached:
        first, visible = _first_true(number, times, truth)
        return f"frame {first + 1} shows it" if visible else f"it came true before frame {first + 1}"
    held = [truth.subgoals[number].held(at) for at in times]
    if True in held:
        return f"frame {held.index(True) + 1} shows it, the last frame does not"
    return "the last frame does not show it" if None in held else "no frame shows it"


@dataclass(frozen=True)
class PercentAnswer:
    """An answer that states percentages.

    Attributes:
        text: The answer.
        values: What each number before a percent sign stands for, in order, 0..1: exact, where the text rounds.
    """

    text: str
    values: tuple[float, ...]


def procvlm_answer(prompt: Prompt, truth: EpisodeTruth) -> PercentAnswer:
    """Return the remaining steps, then the percentage, at the last frame of the question."""
    at_s = frame_times(prompt, truth)[-1]
    remaining = truth.remaining(at_s)
    listed = "\n".join(f"{number}. {name}" for number, name in enumerate(remaining, start=1))
    steps = f"The following steps are required:\n{listed}" if remaining else _all_done(truth.episode)
    progress = procvlm_percentage(prompt, truth)
    return PercentAnswer(f"{steps}\n{DIRECT}{progress.text}", progress.values)


def procvlm_percentage(prompt: Prompt, truth: EpisodeTruth) -> PercentAnswer:
    """Return the answer from the percentage on, such as ``84.13%</progress>.``, at the question's last frame."""
    progress = truth.progress(frame_times(prompt, truth)[-1])
    return PercentAnswer(f"{100 * progress:.2f}%</progress>.", (progress,))


def without_steps(prompt: Prompt) -> Prompt:
    """Return the question with the answer prefilled so that the percentage comes first."""
    return replace(prompt, prefill=DIRECT)


def _all_done(episode: Episode) -> str:
    last = episode.subgoals[-1].name if episode.subgoals else episode.labels.stages[-1].name
    return f"The last step is done ({last}), no further steps required."


def hop_answer(prompt: Prompt, truth: EpisodeTruth) -> PercentAnswer:
    """Return the signed fraction of what remained that got done, or of what was done that came undone, in percent.

    The question shows START, BEFORE and AFTER; where BEFORE is the goal, it names no frame for it, and the
    potential there is 1.
    """
    _, *before, after = (truth.progress(at) for at in frame_times(prompt, truth))
    hop = hop_between(before[0] if before else 1.0, after)
    percent = round(100 * hop)
    stated = f"<score>{percent:+d}%</score>" if percent else "<score>0%</score>"
    return PercentAnswer(stated, (abs(hop),))


def gvl_answer(prompt: Prompt, truth: EpisodeTruth, *, anchored: bool) -> PercentAnswer:
    """Return a line for each frame asked about, in the order shown.

    Args:
        prompt: The question.
        truth: The labels.
        anchored: Whether the first image shows the scene at the start, and is not asked about.
    """
    progress = tuple(truth.progress(at) for at in frame_times(prompt, truth)[int(anchored) :])
    lines = [
        f"Frame {number}: Frame Description: , Task Completion Percentages:{round(100 * value)}%"
        for number, value in enumerate(progress, start=1)
    ]
    return PercentAnswer("\n".join(lines), progress)


def hop_between(before: float, after: float) -> float:
    """Return the hop with which :class:`~stepscore.judges.Hop` gets from one progress to another, in -1..1."""
    if after > before:
        return (after - before) / (1 - before)
    return (after - before) / before if after < before else 0.0
