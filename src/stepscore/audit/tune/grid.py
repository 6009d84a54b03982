"""The trials of a tuning: the default, and every combination of the values to try."""

from __future__ import annotations

import hashlib
import json
import math
import random
import re
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from stepscore.errors import OptionError
from stepscore.judges import Judge

MakeJudge = Callable[[Mapping[str, object]], Judge]
"""Return the judge with these options replaced."""

DEFAULT = "default"
"""Name of the trial with default options."""

MAX_TRIALS = 1000
"""Largest grid that may run without ``max_trials``."""

MAX_NAME = 60
"""Longest name of a trial and its folder; longer names end in a hash."""


@dataclass(frozen=True)
class Trial:
    """One configuration of the judge.

    Attributes:
        name: Name of the trial and of its run folder.
        settings: The changed options, and ``views``.
        views: The cameras the judge sees; ``None`` for all.
    """

    name: str
    settings: Mapping[str, object]
    judge: Judge
    views: tuple[str, ...] | None

    @property
    def asks_as(self) -> str:
        """The trial's questions as text, used to merge trials with identical questions."""
        return json.dumps([self.judge.options(), self.views], sort_keys=True, default=str)


@dataclass(frozen=True)
class Grid:
    """The trials, default first, and the combinations that the judge rejects, with the reason."""

    trials: tuple[Trial, ...]
    combinations: int
    dropped: Mapping[str, str]
    warnings: tuple[str, ...] = ()


def make_grid(
    make: MakeJudge,
    over: Mapping[str, Sequence[object]],
    *,
    views: Sequence[str] | None = None,
    max_trials: int | None = None,
    seed: int = 0,
) -> Grid:
    """Return the default and every combination of the values, or a seeded subset.

    Args:
        over: Values of each option; ``views`` are lists of cameras.
        views: Cameras for trials without ``views``; ``None`` for all.
        max_trials: Largest number of trials, including the default.

    Raises:
        OptionError: There are too many combinations, or the judge rejects a value in every combination.
        UnknownNameError: The judge has no such option.
    """
    count = math.prod(len(values) for values in over.values())
    if max_trials is None and count > MAX_TRIALS:
        raise OptionError(
            f"The values give {count} combinations, more than {MAX_TRIALS}. Limit them: -T max-trials=N"
        )
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        made = [make_trial(make, {}, views, name=DEFAULT)]
        known, refused = {made[0].asks_as}, list[tuple[Mapping[str, object], str]]()
        for settings in _combinations(over, count, max_trials, seed):
            if max_trials is not None and len(made) >= max_trials:
                break
            try:
                trial = make_trial(make, settings, views)
            except OptionError as error:
                refused.append((settings, str(error)))
                continue
            if trial.asks_as not in known:
                known.add(trial.asks_as)
                made.append(trial)
    if max_trials is None:
        _check_values(made, refused)
    dropped = {trial_name(settings): why for settings, why in refused}
    warned = dict.fromkeys(str(warning.message) for warning in caught)
    return Grid(tuple(made), count, dropped, tuple(warned))


def make_trial(
    make: MakeJudge, settings: Mapping[str, object], views: Sequence[str] | None, *, name: str = ""
) -> Trial:
    """Return the trial with these settings; ``views`` are not an option of its judge."""
    judge = make({key: value for key, value in settings.items() if key != "views"})
    chosen = settings.get("views", views)
    cameras = None if chosen is None else tuple(str(view) for view in _listed(chosen))
    return Trial(name or trial_name(settings), dict(settings), judge, cameras)


def trial_name(settings: Mapping[str, object]) -> str:
    """Return a trial's name, valid for a folder: ``frames=8,views=top+wrist``."""
    plain = ",".join(f"{key}={_joined(value)}" for key, value in settings.items())
    # For a template file, use the file name; the hash distinguishes files with the same name.
    short = ",".join(f"{key}={_file_name(_joined(value))}" for key, value in settings.items())
    safe = re.sub(r"[^\w=,.+-]", "_", short, flags=re.ASCII)
    if safe == plain and len(safe) <= MAX_NAME:
        return safe
    return f"{safe[: MAX_NAME - 9]}-{hashlib.sha256(plain.encode(errors='replace')).hexdigest()[:8]}"


def value_text(value: object) -> str:
    """Return a value in the syntax of ``-J KEY=VALUE``."""
    return value if isinstance(value, str) else json.dumps(value)


def _joined(value: object) -> str:
    return "+".join(map(str, value)) if isinstance(value, list | tuple) else value_text(value)


def _file_name(text: str) -> str:
    return re.sub(r"^.*[/\\](.+)\.txt$", r"\1", text)


def _listed(value: object) -> Sequence[object]:
    return value if isinstance(value, list | tuple) else [value]


def _combinations(
    over: Mapping[str, Sequence[object]], count: int, limit: int | None, seed: int
) -> Iterator[dict[str, object]]:
    """Iterate over the combinations in order, or over all in random order if they are limited."""
    if not over:
        return
    numbers: Sequence[int] = range(count)
    if limit is not None and count >= limit:
        # Draw a few extra, because the judge may reject combinations, or two may be identical.
        numbers = random.Random(seed).sample(numbers, min(count, 10 * limit))
    for number in numbers:
        settings = {}
        for name, values in reversed(list(over.items())):
            number, place = divmod(number, len(values))
            settings[name] = values[place]
        yield {name: settings[name] for name in over}


def _check_values(made: Sequence[Trial], refused: Sequence[tuple[Mapping[str, object], str]]) -> None:
    """Raise OptionError for a value that the judge rejects in every combination."""
    own = made[0].judge.options()
    fine = {(name, _joined(value)) for trial in made for name, value in trial.settings.items()}
    fine |= {(name, _joined(value)) for name, value in own.items() if not isinstance(value, Mapping)}
    for settings, why in refused:
        for name, value in settings.items():
            if (name, _joined(value)) not in fine:
                raise OptionError(f"{name}={_joined(value)}: {why}")
