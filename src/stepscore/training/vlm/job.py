"""From datasets to a checkpoint: what ``stepscore train vlm`` does."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from stepscore.errors import OptionError, SourceError
from stepscore.training.job import Log, PreparedRun, TrainingJob


@dataclass(frozen=True)
class VlmJob(TrainingJob):
    """A training run of a vision-language judge.

    Attributes:
        datasets: What it learns from.
        folder: Where the checkpoint, the state and the logs are kept.
        base: The model string to go on from; ``None`` for a new small network.
        lora: Rank of LoRA adapters; ``None`` trains all weights.
        steps: Steps, each of about 40 pairs of frames.
        look: Steps before them in which the vision tower learns alone.
        read: Steps between the two in which the language model learns to tell what the tower sees, in numbers.
        settled: How many of the steps, at the end, leave the vision tower as it is.
        seed: Of weights and choices.
        size: Pixels a side that the network sees.
        rate: Highest learning rate; by default 1e-3 from nothing, 1e-4 for LoRA, 2e-5 for a whole checkpoint.
        pictures: Share of steps with the picture judges' questions.
        held_out: Datasets to check on.
        wordings: A file of other words for instructions.
        frames: Where decoded pictures are kept.
        threads: Processor threads.
    """

    datasets: tuple[Path, ...]
    folder: Path
    base: str | None = None
    lora: int | None = None
    steps: int = 6000
    look: int = 0
    read: int = 0
    settled: int = 0
    seed: int = 0
    size: int = 96
    rate: float | None = None
    pictures: float = 0.2
    held_out: tuple[Path, ...] = ()
    wordings: Path | None = None
    frames: Path | None = None
    threads: int = 2

    def __post_init__(self) -> None:
        if self.lora is not None and self.base is None:
            raise OptionError("LoRA adapters need a checkpoint to adapt: --base hf/...")
        if self.base is not None and not self.base.startswith("hf/"):
            raise OptionError(f"--base is {self.base!r}; give a checkpoint as hf/PATH or hf/ORG/NAME.")
        if self.size % 32:
            raise OptionError(f"size is {self.size}; it must be a multiple of 32, the side of a token.")

    def prepare(self, log: Log) -> PreparedRun:
        """Decode the episodes and build the network, new or from a checkpoint."""
        from stepscore.training.vlm.data.dataset import read_films
        from stepscore.training.vlm.evaluation import check
        from stepscore.training.vlm.setup import merge_lora, write_checkpoint

        cache = self.frames or self.folder / "frames"
        films = [film for path in self.datasets for film in read_films(path, self.size, cache)]
        if not films:
            raise SourceError("The datasets have no labelled episodes to learn from.")
        held_out = [film for path in self.held_out for film in read_films(path, self.size, cache)]
        log(f"{len(films)} films to learn from, {len(held_out)} to check on.")
        training, tokenizer = self._training(films)

        def evaluate() -> Mapping[str, float]:
            return check(training, held_out) if training.step > self.look + self.read else {}

        def write() -> None:
            network = training.teacher.network
            if training.finished and self.lora is not None:
                network = merge_lora(network)
            if training.finished or self.lora is None:
                write_checkpoint(network, tokenizer, self.folder)

        return PreparedRun(training, evaluate if held_out else None, write)

    def _training(self, films: Any) -> tuple[Any, Any]:
        from stepscore.models.qwen3vl import Geometry
        from stepscore.training.vlm import setup as vlm_setup
        from stepscore.training.vlm.small_vlm import Shape
        from stepscore.training.vlm.training import TrainConfig

        texts = vlm_setup.texts_of(films, vlm_setup.read_wordings(self.wordings))
        geometry = Geometry()
        if self.base is None:
            network, tokenizer = vlm_setup.new_network(films, texts, Shape(size=self.size), self.seed)
        else:
            checkpoint = self.base.removeprefix("hf/")
            network, tokenizer, geometry = vlm_setup.from_checkpoint(checkpoint, lora=self.lora)
        usual = 1e-3 if self.base is None else 2e-5 if self.lora is None else 1e-4
        recipe = TrainConfig(
            look=self.look,
            read=self.read,
            steps=self.steps,
            settled=self.settled,
            rate=self.rate or usual,
            pictures=self.pictures,
            seed=self.seed,
        )
        training = vlm_setup.set_up(
            network,
            vlm_setup.encoder(tokenizer),
            films,
            texts,
            recipe,
            self.folder,
            geometry=geometry,
            size=self.size,
        )
        return training, tokenizer
