"""Set up a training run: a new small network or a checkpoint, with texts, judges and trainer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
import yaml

from stepscore.errors import ModelError, OptionError
from stepscore.judges import Gvl, Hop, Judge, ProcVlm, StepEval
from stepscore.judges.common import load_prompt
from stepscore.models import get_model
from stepscore.models.hf import checkpoint_folder, load_tokenizer, no_progress_bars, read_json
from stepscore.models.qwen3vl import Geometry, PromptLayout, VisionTokens, geometry_of
from stepscore.procedures import AnnotateOptions
from stepscore.training.vlm.aux_heads import StateScaling, label_space_of
from stepscore.training.vlm.config import VlmTrainConfig
from stepscore.training.vlm.data.clips import Texts
from stepscore.training.vlm.data.dataset import LabelledVideo
from stepscore.training.vlm.data.image_batches import ImageBatches, QuestionSource
from stepscore.training.vlm.data.stage_questions import StageQuestions, recorded_plans
from stepscore.training.vlm.loss import AuxHeads, LossComputer
from stepscore.training.vlm.processor_files import copy_preprocessors, write_processor_files
from stepscore.training.vlm.small_vlm import SmallVlmConfig, all_texts, make_network, train_tokenizer
from stepscore.training.vlm.trainer import HEAD, VlmTrainer
from stepscore.training.vlm.vision_forward import BatchedVisionEncoder
from stepscore.training.vlm.vision_pretraining import VisionPretraining

LORA_MODULES = ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj")


MIN_STAGED_FRACTION = 0.1
"""Minimum fraction of episodes with labelled stages for training on annotate's questions."""


def texts_of(videos: Sequence[LabelledVideo], paraphrases: Mapping[str, Sequence[str]]) -> Texts:
    """Return the texts used in statements about these videos.

    Args:
        videos: The training videos.
        paraphrases: Paraphrases of each instruction.
    """
    subgoals: dict[str, list[str]] = {}
    for video in videos:
        subgoals.setdefault(video.instruction, [subgoal.name for subgoal in video.subgoals])
    return Texts(load_prompt("statement"), paraphrases, _opposites(videos), sorted(subgoals), subgoals)


def _opposites(videos: Sequence[LabelledVideo]) -> dict[str, str]:
    """Return pairs of opposite instructions that both occur in training."""
    from stepscore.episodes.perturbations import opposite_instruction_of

    known = {video.instruction for video in videos}
    opposites = {}
    for instruction in known:
        try:
            other = opposite_instruction_of(instruction, _SAME_SCENE_ANTONYMS)
        except OptionError:
            continue
        if other in known:
            opposites[instruction] = other
    return opposites


_SAME_SCENE_ANTONYMS = {
    "open": "close",
    "press the handle down": "pull the handle up",
    "turn the faucet handle to the left": "turn the faucet handle to the right",
    "push the mug under the coffee machine": "pull the mug away from the coffee machine to the mark",
}


def read_paraphrases(path: Path | None) -> dict[str, list[str]]:
    """Read the paraphrases of each instruction from a YAML mapping.

    The last paraphrases of each instruction are held out for tests: three if there are at least ten, else one.
    """
    if path is None:
        return {}
    try:
        read = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, yaml.YAMLError) as error:
        raise OptionError(f"Paraphrases {path} cannot be read: {error}.") from error
    if not isinstance(read, dict) or not all(isinstance(v, list) for v in read.values()):
        raise OptionError(
            f"Invalid paraphrases {path}: expected an instruction and a list of paraphrases on each line."
        )
    return {str(own): [str(text) for text in others[: -held_out(others)]] for own, others in read.items()}


def held_out(paraphrases: Sequence[object]) -> int:
    """Return the number of an instruction's last paraphrases that are held out from training."""
    return 3 if len(paraphrases) >= 10 else 1


def new_network(texts: Texts, sizes: SmallVlmConfig, seed: int) -> tuple[Any, Any]:
    """Return a small network with random weights and a tokenizer for these texts; see ``small_vlm.py``."""
    subgoals = [name for names in texts.subgoals.values() for name in names]
    paraphrases = [text for others in texts.paraphrases.values() for text in others]
    tokenizer = train_tokenizer(all_texts(texts.instructions, subgoals, paraphrases))
    return make_network(tokenizer, sizes, seed), tokenizer


def from_checkpoint(checkpoint: str, *, lora_rank: int | None, seed: int) -> tuple[Any, Any, Geometry]:
    """Load a Qwen3-VL checkpoint for fine-tuning, with its tokenizer and geometry.

    Args:
        checkpoint: A path or repo id: a model string without ``hf/``.
        lora_rank: Rank of LoRA adapters on the language model; ``None`` to train all weights.
        seed: Random seed of the adapters.
    """
    from transformers import AutoModelForImageTextToText

    folder = checkpoint_folder(checkpoint, remote_code=False)
    config = read_json(folder / "config.json")
    if config.get("model_type") != "qwen3_vl":
        raise ModelError(
            f"hf/{checkpoint} is of type {config.get('model_type')!r}; training takes qwen3_vl checkpoints."
        )
    loader: Any = AutoModelForImageTextToText
    with no_progress_bars():
        network = loader.from_pretrained(
            folder, dtype=torch.float32, use_safetensors=True, local_files_only=True
        )
    if lora_rank is not None:
        torch.manual_seed(seed)
        network = add_lora(network, lora_rank)
    processor = folder / "preprocessor_config.json"
    geometry = geometry_of(
        config.get("vision_config") or {}, read_json(processor) if processor.is_file() else {}
    )
    return network, load_tokenizer(folder, remote_code=False), geometry


def add_lora(network: Any, rank: int) -> Any:
    """Return the network with LoRA adapters on its language model's matrices; all other weights are frozen."""
    try:
        from peft import LoraConfig, inject_adapter_in_model
    except ImportError as error:
        from stepscore.errors import MissingExtraError

        raise MissingExtraError("LoRA training", "train") from error
    pattern = rf".*language_model.*\.({'|'.join(LORA_MODULES)})"
    config = LoraConfig(r=rank, lora_alpha=2 * rank, target_modules=pattern)
    adapted = inject_adapter_in_model(config, network)
    for name, weights in adapted.named_parameters():
        weights.requires_grad_("lora_" in name)
    return adapted


def merge_lora(network: Any) -> Any:
    """Return the network with its adapters merged into the weights, like any other checkpoint."""
    from peft.tuners.lora import LoraLayer

    for name, module in list(network.named_modules()):
        if isinstance(module, LoraLayer):
            module.merge()
            parent = network.get_submodule(name.rpartition(".")[0])
            setattr(parent, name.rpartition(".")[2], module.get_base_layer())
    return network


def build_trainer(
    network: Any,
    encode: Any,
    videos: Sequence[LabelledVideo],
    texts: Texts,
    config: VlmTrainConfig,
    folder: Path,
    *,
    geometry: Geometry,
    image_size: int,
) -> VlmTrainer:
    """Return the trainer of a network on videos.

    Args:
        network: A ``Qwen3VLForConditionalGeneration``.
        encode: Function from text to token ids.
        videos: The training videos.
        texts: Texts used in statements about the videos.
        config: Steps, learning rate and so on.
        folder: Folder for the training state and the logs.
        geometry: Patch sizes of the network's vision encoder.
        image_size: Side length of the video frames, in pixels.
    """
    names = ("vision_start_token_id", "vision_end_token_id", "image_token_id", "video_token_id")
    tokens = VisionTokens(*(int(getattr(network.config, name)) for name in names))
    grid = geometry.grid((image_size, image_size))
    layout = PromptLayout(encode, tokens, grid, geometry.temporal, HEAD)
    n_states = max((video.states.shape[1] for video in videos), default=0)
    patches = image_size // geometry.patch
    vision = BatchedVisionEncoder(network.model.visual, patches, patches, config.dtype)
    space, scaling, heads, pretraining = label_space_of(videos), None, None, None
    if n_states and all(video.states.shape[1] == n_states for video in videos):
        torch.manual_seed(config.seed)
        hidden_size = network.config.text_config.hidden_size
        # One more than recorded, because progress is predicted too.
        heads = AuxHeads(hidden_size, grid[0] * grid[1], n_states + 1, space).to(network.device)
        scaling = StateScaling.fit(videos)
        if config.vision_pretrain_steps:
            pretraining = VisionPretraining(videos, space, heads.vision, scaling, vision, geometry)
    numbers = number_ids(encode)
    computer = LossComputer(network, vision, tokens, heads, numbers, config.dtype)
    questions = (
        ImageBatches(image_questions(videos), videos, layout, geometry, space, texts, number_ids=numbers)
        if config.image_question_fraction
        else None
    )
    return VlmTrainer(
        computer, layout, geometry, videos, texts, space, questions, pretraining, scaling, config, folder
    )


def image_questions(videos: Sequence[LabelledVideo]) -> list[QuestionSource]:
    """Return the sources of single-image training questions: judges, and annotate if enough stages are labelled.

    Args:
        videos: The training videos.
    """
    episodes = [video.episode for video in videos]
    plans = recorded_plans(episodes)
    staged = sum(bool(episode.labels.stages) for episode in episodes)
    if not plans or staged < MIN_STAGED_FRACTION * len(episodes):
        return list(image_judges())
    return [
        *image_judges(),
        StageQuestions("stages-plan", plans, AnnotateOptions()),
        StageQuestions("stages-segment", plans, AnnotateOptions()),
        StageQuestions("stages-segment", plans, AnnotateOptions(fps=10.0, max_frames=16)),
    ]


def image_judges() -> list[Judge]:
    """Return the judges that supply single-image training questions, repeated by sampling frequency.

    Hop and procvlm are sampled most often because they are learned slowest.
    """
    model = get_model("mock/yes")
    return [
        StepEval(model, strategy="per-subgoal", answer="tokens", frames=8),
        StepEval(model, strategy="per-subgoal", answer="tokens", frames=16),
        StepEval(model, strategy="all-at-once", frames=8),
        StepEval(model, strategy="per-subgoal", frames=8),
        StepEval(model, strategy="sequential", answer="tokens", frames=8),
        ProcVlm(model, window=4),
        ProcVlm(model, window=4),
        ProcVlm(model, window=8),
        ProcVlm(model, window=4, pad=False),
        Hop(model),
        Hop(model),
        Hop(model),
        Hop(model),
        Gvl(model, frames=6),
        Gvl(model, frames=8),
        Gvl(model, frames=8),
    ]


def number_ids(encode: Any) -> tuple[int, ...]:
    """Return the tokens of the numbers 0 to 100; empty if any number needs several tokens."""
    encoded = [encode(str(number)) for number in range(101)]
    return tuple(ids[0] for ids in encoded) if all(len(ids) == 1 for ids in encoded) else ()


def encode_with(tokenizer: Any) -> Any:
    """Return the function from text to token ids, for a tokenizer of either library."""
    from functools import lru_cache

    @lru_cache(maxsize=20_000)
    def ids(text: str) -> tuple[int, ...]:
        encoded = tokenizer.encode(text, add_special_tokens=False)
        return tuple(encoded if isinstance(encoded, list) else encoded.ids)

    return lambda text: list(ids(text))


def write_checkpoint(network: Any, tokenizer: Any, folder: Path, base: str | None = None) -> None:
    """Write the network as a complete checkpoint that ``hf/FOLDER`` and other tools can load.

    Args:
        network: The network; weights are written as float16.
        tokenizer: A tokenizer from either library.
        folder: Output folder, created if missing.
        base: The checkpoint the network was fine-tuned from, whose preprocessor configs are copied.
    """
    folder.mkdir(parents=True, exist_ok=True)
    full = {name: weights.detach().clone() for name, weights in network.state_dict().items()}
    with no_progress_bars():
        network.half().save_pretrained(folder)
    network.float().load_state_dict(full)
    if hasattr(tokenizer, "save_pretrained"):
        tokenizer.save_pretrained(folder)
        if base is not None:
            copy_preprocessors(checkpoint_folder(base, remote_code=False), folder)
    else:
        tokenizer.save(str(folder / "tokenizer.json"))
        write_processor_files(folder, read_json(folder / "config.json"))
