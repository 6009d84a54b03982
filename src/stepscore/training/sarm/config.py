"""The options of ``stepscore train sarm``; importing them imports neither NumPy nor torch."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

from stepscore.errors import OptionError, UnknownNameError

if TYPE_CHECKING:
    from stepscore.models.sarm import Mode


@dataclass(frozen=True)
class SarmJobConfig:
    """The options of a training run of SARM.

    Attributes:
        datasets: What it learns from.
        folder: Where the checkpoint, the state and the logs are kept.
        labels: A labels file for a single dataset; else ``labels.parquet`` of each.
        sparse_labels: For ``mode="dual"``: a labels file with the sparse stages.
        encoder: What it sees with: ``embedded`` or ``hf/PATH-OR-ID``.
        mode: ``single``, ``dense`` or ``dual``; see ``SarmConfig``.
        progress: ``stages``, ``linear`` or a labelled potential's name; by default the only one labelled, else
            ``stages``.
        causal: Look at the past alone, for online use; else on both sides of a moment.
        views: Cameras; by default those of the first episode.
        state: Columns of the robot's state.
        frames: Frames of a window beside the first of the episode.
        gap_s: Seconds between them; by default the window spans half of the median episode.
        width: Numbers of a token.
        layers: Of each transformer.
        attention_heads: Of each layer.
        copies: Changed copies of every episode (camera shifted, other light) to learn from besides.
        recipe: Steps, rate, batch and so on, as fields of ``Recipe``.
        held_out: Datasets to check on.
        hold: Without them: the share of episodes, whole scenes at a time, that is kept apart to check on.
        cache: Where encoded frames are kept; else in the checkpoint.
        threads: Processor threads.
        device: Where the encoder runs: ``"auto"``, ``"cpu"``, ``"cuda"``.
    """

    datasets: tuple[Path, ...]
    folder: Path
    labels: Path | None = None
    sparse_labels: Path | None = None
    encoder: str = "embedded"
    mode: Mode = "dense"
    progress: str | None = None
    causal: bool = False
    views: tuple[str, ...] = ()
    state: tuple[str, ...] = ()
    frames: int = 8
    gap_s: float | None = None
    width: int = 128
    layers: int = 3
    attention_heads: int = 4
    copies: int = 0
    recipe: dict[str, Any] = field(default_factory=dict)
    held_out: tuple[Path, ...] = ()
    hold: float = 0.1
    cache: Path | None = None
    threads: int = 2
    device: str = "auto"

    def __post_init__(self) -> None:
        from stepscore.models.sarm import Mode

        if self.mode not in get_args(Mode):
            raise UnknownNameError("mode", self.mode, get_args(Mode))
        if self.labels is not None and len(self.datasets) != 1:
            raise OptionError("--labels belongs to one dataset; several bring their own labels.parquet.")
        if self.progress == "linear" and self.mode != "single":
            raise OptionError("Frame-index labels have no stages: --progress linear needs --mode single.")
        if self.sparse_labels is not None and self.mode != "dual":
            raise OptionError("--sparse-labels is for --mode dual.")
        if not 0 <= self.hold < 1 or self.copies < 0:
            raise OptionError(
                f"hold is {self.hold} and copies {self.copies}; allowed are 0 <= hold < 1 and from 0."
            )
