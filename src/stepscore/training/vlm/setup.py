"""What a training run starts from: a new small network or a checkpoint, its texts and its lessons."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
import yaml

from stepscore.errors import ModelError, OptionError
from stepscore.judges import Hop, Judge, ProcVlm, StepEval
from stepscore.judges.common import read_prompt
from stepscore.models import get_model
from stepscore.models.hf import checkpoint_folder, load_tokenizer, read_json
from stepscore.models.qwen3vl import Geometry, Layout, VisionTokens, geometry_of
from stepscore.training.vlm.aux_heads import facts_of
from stepscore.training.vlm.data.clips import Texts
from stepscore.training.vlm.data.dataset import LabelledFilm
from stepscore.training.vlm.data.image_batches import PictureLessons
from stepscore.training.vlm.loss import Heads, Teacher
from stepscore.training.vlm.small_vlm import Shape, all_texts, make_network, make_tokenizer
from stepscore.training.vlm.training import USER, TrainConfig, Training
from stepscore.training.vlm.vision_forward import VisionPass
from stepscore.training.vlm.vision_pretraining import Looking

LORA_MODULES = ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj")


def texts_of(films: Sequence[LabelledFilm], wordings: Mapping[str, Sequence[str]]) -> Texts:
    """What can be said of these films.

    Args:
        films: The films.
        wordings: Other words for instructions.
    """
    subgoals: dict[str, list[str]] = {}
    for film in films:
        subgoals.setdefault(film.instruction, [subgoal.name for subgoal in film.subgoals])
    return Texts(read_prompt("topreward_upstream"), wordings, _opposites(films), sorted(subgoals), subgoals)


def _opposites(films: Sequence[LabelledFilm]) -> dict[str, str]:
    """Pairs of instructions that undo each other, where both are trained."""
    from stepscore.episodes.perturbations import opposite_instruction_of

    known = {film.instruction for film in films}
    found = {}
    for instruction in known:
        try:
            other = opposite_instruction_of(instruction, _IN_THE_SAME_SCENE)
        except OptionError:
            continue
        if other in known:
            found[instruction] = other
    return found


_IN_THE_SAME_SCENE = {
    "open": "close",
    "press the handle down": "pull the handle up",
    "turn the faucet handle to the left": "turn the faucet handle to the right",
    "push the mug under the coffee machine": "pull the mug away from the coffee machine to the mark",
}


def read_wordings(path: Path | None) -> dict[str, list[str]]:
    """Other words for each instruction: a YAML mapping. The last of each is left out, to be tested with."""
    if path is None:
        return {}
    try:
        read = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, yaml.YAMLError) as error:
        raise OptionError(f"Wordings {path} cannot be read: {error}.") from error
    if not isinstance(read, dict) or not all(isinstance(v, list) for v in read.values()):
        raise OptionError(f"Wordings {path}: expected an instruction and a list of others on each line.")
    return {str(said): [str(text) for text in others[:-1]] for said, others in read.items()}


def new_network(films: Sequence[LabelledFilm], texts: Texts, shape: Shape, seed: int) -> tuple[Any, Any]:
    """A small network with random weights and a tokenizer for these texts; see ``small_vlm.py``."""
    subgoals = [name for names in texts.subgoals.values() for name in names]
    wordings = [text for others in texts.wordings.values() for text in others]
    tokenizer = make_tokenizer(all_texts(texts.instructions, subgoals, wordings))
    return make_network(tokenizer, shape, seed), tokenizer


def from_checkpoint(checkpoint: str, *, lora: int | None) -> tuple[Any, Any, Geometry]:
    """A Qwen3-VL checkpoint to go on from, its tokenizer and geometry.

    Args:
        checkpoint: What stands after ``hf/``.
        lora: Rank of LoRA adapters on the language model; ``None`` to train all weights.
    """
    from transformers import AutoModelForImageTextToText

    folder = checkpoint_folder(checkpoint, remote_code=False)
    config = read_json(folder / "config.json")
    if config.get("model_type") != "qwen3_vl":
        raise ModelError(
            f"hf/{checkpoint} is of type {config.get('model_type')!r}; training takes qwen3_vl checkpoints."
        )
    loader: Any = AutoModelForImageTextToText
    network = loader.from_pretrained(folder, dtype=torch.float32, use_safetensors=True, local_files_only=True)
    if lora is not None:
        network = with_lora(network, lora)
    processor = folder / "preprocessor_config.json"
    geometry = geometry_of(
        config.get("vision_config") or {}, read_json(processor) if processor.is_file() else {}
    )
    return network, load_tokenizer(folder, remote_code=False), geometry


def with_lora(network: Any, rank: int) -> Any:
    """The network with LoRA adapters on its language model's matrices; all else stands still."""
    try:
        from peft import LoraConfig, inject_adapter_in_model
    except ImportError as error:
        from stepscore.errors import MissingExtraError

        raise MissingExtraError("LoRA training", "train") from error
    pattern = rf".*language_model.*\.({'|'.join(LORA_MODULES)})"
    config = LoraConfig(r=rank, lora_alpha=2 * rank, target_modules=pattern)
    changed = inject_adapter_in_model(config, network)
    for name, weights in changed.named_parameters():
        weights.requires_grad_("lora_" in name)
    return changed


def merge_lora(network: Any) -> Any:
    """The network with its adapters added to the weights they belong to, as any other checkpoint."""
    from peft.tuners.lora import LoraLayer

    for name, module in list(network.named_modules()):
        if isinstance(module, LoraLayer):
            module.merge()
            parent = network.get_submodule(name.rpartition(".")[0])
            setattr(parent, name.rpartition(".")[2], module.get_base_layer())
    return network


def set_up(
    network: Any,
    encode: Any,
    films: Sequence[LabelledFilm],
    texts: Texts,
    recipe: TrainConfig,
    folder: Path,
    *,
    geometry: Geometry,
    size: int,
) -> Training:
    """A training run of a network on films.

    Args:
        network: The network.
        encode: Text into token ids.
        films: What it learns from.
        texts: What is said of them.
        recipe: How training goes.
        folder: Where its state is kept.
        geometry: How the network cuts pictures up.
        size: Pixels a side of the films' pictures.
    """
    names = ("vision_start_token_id", "vision_end_token_id", "image_token_id", "video_token_id")
    tokens = VisionTokens(*(int(getattr(network.config, name)) for name in names))
    grid = geometry.grid((size, size))
    layout = Layout(encode, tokens, grid, geometry.temporal, USER)
    states = max((film.states.shape[1] for film in films), default=0)
    patches = size // geometry.patch
    vision = VisionPass(network.model.visual, patches, patches)
    facts, heads, looking = facts_of(films), None, None
    if states and all(film.states.shape[1] == states for film in films):
        torch.manual_seed(recipe.seed)
        hidden = network.config.text_config.hidden_size
        heads = Heads(hidden, grid[0] * grid[1], states + 1, facts).to(network.device)
        if recipe.look:
            looking = Looking(films, facts, heads.seen, vision, geometry)
    teacher = Teacher(network, vision, tokens, heads)
    lessons = PictureLessons(taught_judges(), films, layout, geometry, facts) if recipe.pictures else None
    return Training(teacher, layout, geometry, films, texts, facts, lessons, looking, recipe, folder)


def taught_judges() -> list[Judge]:
    """The judges whose questions are taught, with the options they are taught in."""
    model = get_model("mock/yes")
    return [
        StepEval(model, strategy="per-subgoal", answer="tokens", frames=8),
        StepEval(model, strategy="per-subgoal", answer="tokens", frames=16),
        StepEval(model, strategy="all-at-once", frames=8),
        StepEval(model, strategy="per-subgoal", frames=8),
        StepEval(model, strategy="sequential", answer="tokens", frames=8),
        ProcVlm(model, window=4),
        ProcVlm(model, window=8),
        Hop(model),
    ]


def encoder(tokenizer: Any) -> Any:
    """Text into token ids, for a tokenizer of either library."""
    from functools import lru_cache

    @lru_cache(maxsize=20_000)
    def ids(text: str) -> tuple[int, ...]:
        found = tokenizer.encode(text, add_special_tokens=False)
        return tuple(found if isinstance(found, list) else found.ids)

    return lambda text: list(ids(text))


def write_checkpoint(network: Any, tokenizer: Any, folder: Path) -> None:
    """The network as a checkpoint that ``hf/FOLDER`` loads: float16 weights, configuration, tokenizer."""
    folder.mkdir(parents=True, exist_ok=True)
    half = {name: weights.detach().clone() for name, weights in network.state_dict().items()}
    network.half().save_pretrained(folder)
    network.float().load_state_dict(half)
    if hasattr(tokenizer, "save_pretrained"):
        tokenizer.save_pretrained(folder)
    else:
        tokenizer.save(str(folder / "tokenizer.json"))
