"""SARM's temporal proportions: which share of a task each stage takes, over annotated episodes.

Two priors are published, and they differ as soon as an episode lacks a stage. With (a 5 s, b 5 s) and
(a 10 s) the paper's gives a = 0.75, b = 0.25, and LeRobot's code a = 0.6, b = 0.4.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal, get_args

from stepscore.episodes import Stage
from stepscore.errors import EpisodeError, UnknownNameError
from stepscore.metrics import procedure_order

Prior = Literal["paper", "lerobot"]


def temporal_proportions(
    episodes: Sequence[Sequence[Stage]], names: Sequence[str] | None = None, prior: Prior = "paper"
) -> dict[str, float]:
    """Return each stage's share of the task, summing to 1, in the order of the procedure.

    With L_ik the seconds of stage k in episode i and T_i = sum_k L_ik:

    - ``"paper"``: alpha_k = 1/M sum_i L_ik / T_i over all M episodes (SARM, arXiv 2509.25358, eq. 1). A stage
      that an episode lacks counts 0 there; the seconds of a repeated one add up.
    - ``"lerobot"``: the mean of L_ik / T_i over the episodes that contain k, divided by the sum of these
      means (LeRobot 0.6, subtask_annotation.py). Of a repeated stage the last seconds count.

    LeRobot's annotator writes whole seconds; here seconds are taken as annotated.

    Args:
        episodes: The stages of each annotated episode; episodes without any are left out.
        names: The procedure; a stage of it that no episode has gets share 0. Without it, the stages in the
            order in which they are first done.
        prior: ``"paper"`` or ``"lerobot"``.

    Raises:
        EpisodeError: No episode has stages, or one has a stage that is not in ``names``.
    """
    if prior not in get_args(Prior):
        raise UnknownNameError("prior", prior, get_args(Prior))
    annotated = [spans for spans in episodes if spans]
    order = list(names) if names is not None else procedure_order(annotated)
    if not annotated:
        raise EpisodeError("No episode has stages to take proportions from.")
    shares = [_shares(spans, prior) for spans in annotated]
    unknown = next((name for episode in shares for name in episode if name not in order), None)
    if unknown is not None:
        raise UnknownNameError("stage", unknown, order)
    if prior == "paper":
        alphas = {name: sum(s.get(name, 0.0) for s in shares) / len(shares) for name in order}
    else:
        held = {name: [s[name] for s in shares if name in s] for name in order}
        alphas = {name: sum(values) / len(values) if values else 0.0 for name, values in held.items()}
    total = sum(alphas.values())
    return {name: alpha / total for name, alpha in alphas.items()}


def _shares(spans: Sequence[Stage], prior: Prior) -> Mapping[str, float]:
    """Return each stage's share of the annotated seconds of one episode."""
    total = sum(span.end_s - span.start_s for span in spans)
    seconds: dict[str, float] = {}
    for span in spans:
        earlier = seconds.get(span.name, 0.0) if prior == "paper" else 0.0
        seconds[span.name] = earlier + span.end_s - span.start_s
    return {name: length / total for name, length in seconds.items()}
