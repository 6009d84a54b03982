"""From datasets to a checkpoint: the job behind ``stepscore train vlm``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from stepscore._options import MANY, MAX_SEED, Range
from stepscore.errors import OptionError, SourceError
from stepscore.training.job import Log, PreparedRun, TrainingJob, check_single_source, default_threads
from stepscore.training.vlm.config import TrainDtype, VlmTrainConfig

if TYPE_CHECKING:
    from stepscore.training.vlm.data.dataset import LabelledVideo
    from stepscore.training.vlm.trainer import VlmTrainer

MAX_EVAL_VIDEOS = 100
"""Most held-out videos of an evaluation during training, spread over all of them."""
DEFAULT_LR, LORA_LR, FINE_TUNING_LR = 1e-3, 1e-4, 2e-5
"""Peak learning rate of a new network, of LoRA adapters, and of a whole checkpoint."""


@dataclass(frozen=True)
class VlmJob(TrainingJob):
    """A training run of a vision-language judge.

    Attributes:
        datasets: Labelled datasets to train on.
        folder: Where the checkpoint, the state and the logs are kept.
        base: Model string of a checkpoint to fine-tune. Default: a new small network.
        lora_rank: Rank of LoRA adapters, such as 16. Default: train all weights.
        steps: Optimizer steps, each of about 40 pairs of frames.
        vision_pretrain_steps: Steps before ``steps`` that train only the vision encoder.
        align_steps: Steps between the two that align the language model with the encoder.
        frozen_vision_steps: How many of ``steps``, at the end, freeze the vision encoder.
        seed: Random seed of weights and batches.
        image_size: Pixels a side of the network's input.
        lr: Peak learning rate. Default: 1e-3 for a new network, 1e-4 for LoRA, 2e-5 for a whole checkpoint.
        image_question_fraction: Fraction of steps with the questions of judges that show single images.
        image_questions_from: Fraction of the steps after which these begin.
        dtype: Type of matrix products. bfloat16 is faster on CPUs with AVX-512 BF16.
        eval_datasets: Held-out datasets, evaluated at every save.
        labels: A labels file for a single dataset. Default: the one next to each.
        subgoals: A subgoals file for a single dataset. Default: the one next to each.
        success_from_stages: Take the last stage for success where no label says it.
        paraphrases: A YAML file with paraphrases of instructions.
        frames_dir: Where decoded frames are cached. Default: in the checkpoint's folder.
        threads: CPU threads.
    """

    datasets: tuple[Path, ...]
    folder: Path
    base: str | None = None
    lora_rank: Annotated[int | None, Range(1, 10_000)] = None
    steps: Annotated[int, Range(0, MANY)] = 6000
    vision_pretrain_steps: Annotated[int, Range(0, MANY)] = 0
    align_steps: Annotated[int, Range(0, MANY)] = 0
    frozen_vision_steps: Annotated[int, Range(0, MANY)] = 0
    seed: Annotated[int, Range(0, MAX_SEED)] = 0
    image_size: Annotated[int, Range(1, 4096)] = 96
    lr: Annotated[float | None, Range(0, 1000, above=True)] = None
    image_question_fraction: Annotated[float, Range(0, 1)] = 0.2
    image_questions_from: Annotated[float, Range(0, 1)] = VlmTrainConfig.image_questions_from
    dtype: TrainDtype = "float32"
    eval_datasets: tuple[Path, ...] = ()
    labels: Path | None = None
    subgoals: Path | None = None
    success_from_stages: bool = False
    paraphrases: Path | None = None
    frames_dir: Path | None = None
    threads: Annotated[int, Range(1, 1024)] = field(default_factory=default_threads)

    def __post_init__(self) -> None:
        check_single_source(self.labels, self.subgoals, len(self.datasets))
        if self.lora_rank is not None and self.base is None:
            raise OptionError("LoRA adapters need a checkpoint to adapt: -T base=hf/...")
        if self.base is not None and not self.base.startswith("hf/"):
            raise OptionError(
                f"Invalid base {self.base!r}: give a checkpoint as -T base=hf/PATH or hf/ORG/NAME."
            )
        if self.image_size % 32:
            raise OptionError(
                f"Invalid image size {self.image_size}: it must be a multiple of 32, the side of a token."
            )

    @property
    def extra(self) -> str:
        """The extra that it needs: LoRA adapters are made by peft."""
        return "local" if self.lora_rank is None else "train"

    @property
    def _base(self) -> str | None:
        """The path or repo id of the checkpoint to fine-tune."""
        return None if self.base is None else self.base.removeprefix("hf/")

    def prepare(self, log: Log) -> PreparedRun:
        """Decode the episodes and build the network, new or from a checkpoint."""
        from stepscore.training.labelled_source import LabelledSource
        from stepscore.training.vlm.data.dataset import read_videos
        from stepscore.training.vlm.evaluation import evaluate
        from stepscore.training.vlm.setup import merge_lora, write_checkpoint

        cache = self.frames_dir or self.folder / "frames"
        derive = self.success_from_stages
        own = [LabelledSource(path, self.labels, self.subgoals, derive) for path in self.datasets]
        held = [LabelledSource(path, success_from_stages=derive) for path in self.eval_datasets]
        videos, held_out = (
            [video for one in sources for video in read_videos(one, self.image_size, cache, log=log)]
            for sources in (own, held)
        )
        if not any(v.has_progress and v.episode.labels.success is not None for v in videos):
            raise SourceError(
                "The datasets have no episode with both a success label and progress labels to train on. Give them: "
                "--labels FILE, as `stepscore sim` and `stepscore progress-labels` write it."
            )
        log(f"{len(videos)} training videos, {len(held_out)} held out for evaluation.")
        trainer, tokenizer = self._trainer(videos)

        def metrics() -> Mapping[str, float]:
            first = self.vision_pretrain_steps + self.align_steps
            some = held_out[:: -(-len(held_out) // MAX_EVAL_VIDEOS)]
            return evaluate(trainer, some) if trainer.step > first else {}

        def write() -> None:
            network = trainer.loss_computer.network
            if self.lora_rank is not None:
                network = merge_lora(network)
            write_checkpoint(network, tokenizer, self.folder, self._base)

        return PreparedRun(trainer, metrics if held_out else None, write)

    def train_config(self) -> VlmTrainConfig:
        """Return the training config of these options."""
        default_lr = (
            DEFAULT_LR if self.base is None else FINE_TUNING_LR if self.lora_rank is None else LORA_LR
        )
        return VlmTrainConfig(
            vision_pretrain_steps=self.vision_pretrain_steps,
            align_steps=self.align_steps,
            steps=self.steps,
            frozen_vision_steps=self.frozen_vision_steps,
            lr=self.lr or default_lr,
            image_question_fraction=self.image_question_fraction,
            image_questions_from=self.image_questions_from,
            dtype=self.dtype,
            seed=self.seed,
        )

    def _trainer(self, videos: Sequence[LabelledVideo]) -> tuple[VlmTrainer, Any]:
        from stepscore.models.qwen3vl import Geometry
        from stepscore.training.vlm import setup as vlm_setup
        from stepscore.training.vlm.small_vlm import SmallVlmConfig

        texts = vlm_setup.texts_of(videos, vlm_setup.read_paraphrases(self.paraphrases))
        geometry = Geometry()
        if self._base is None:
            sizes = SmallVlmConfig(image_size=self.image_size)
            network, tokenizer = vlm_setup.new_network(texts, sizes, self.seed)
        else:
            network, tokenizer, geometry = vlm_setup.from_checkpoint(
                self._base, lora_rank=self.lora_rank, seed=self.seed
            )
        trainer = vlm_setup.build_trainer(
            network,
            vlm_setup.encode_with(tokenizer),
            videos,
            texts,
            self.train_config(),
            self.folder,
            geometry=geometry,
            image_size=self.image_size,
        )
        return trainer, tokenizer
