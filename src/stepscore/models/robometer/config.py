"""What a Robometer checkpoint states about itself, in either of its two layouts.

=============  ===============================================  ==================================================
layout         robometer/Robometer-4B                           lerobot/Robometer-4B
=============  ===============================================  ==================================================
config.json    the config of the Qwen3-VL, rows of the five     LeRobot's: ``type: robometer``; the Qwen3-VL's is
               added tokens counted                             its field ``vlm_config``
heads' config  ``config.yaml``: sections model, data, loss,     fields of ``config.json``
               training
backbone       ``model.visual. ...``,                           ``model.model.visual. ...``,
               ``model.language_model. ...``                    ``model.model.language_model. ...``,
                                                                ``model.lm_head.weight``
heads          ``progress_head.0.weight`` ...                   the same
tokenizer      in the folder                                    that of the base model
=============  ===============================================  ==================================================

Read from the code of robometer (commit c7f38e2, ``models/rbm.py``, ``models/heads.py``, ``utils/save.py``) and of
lerobot (commit 7427f31, ``rewards/robometer``).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from stepscore._untrusted import read_yaml, shown
from stepscore._untrusted.checkpoint_folder import (
    MAX_CONFIG_BYTES,
    brief,
    checked_file,
    has_file,
    read_object,
    whole_number,
)
from stepscore._untrusted.safetensors_header import Header
from stepscore.errors import ModelError

Layout = Literal["robometer", "lerobot"]
MARK, LAST = "progress_head.0.weight", "progress_head.4.weight"
"""The tensor by which such a checkpoint is known, and the one with a row for each output of the progress head."""

FAMILIES = ("qwen3_vl",)
MAX_BINS = 1024


@dataclass(frozen=True)
class RobometerConfig:
    """The config of a Robometer checkpoint.

    Attributes:
        layout: Whose names its files have; see above.
        backbone: The config of its Qwen3-VL.
        bins: Progress is a distribution over this many values, evenly from 0 to 1; 1 for a single number.
        preference_asks_progress: Whether it was trained with the second sentence of the preference prompt, which
            asks for the progress of the first video too.
        base_model: Hub id of the model it was trained from, whose tokenizer it takes where it has none; may be empty.
    """

    layout: Layout
    backbone: Mapping[str, Any]
    bins: int
    preference_asks_progress: bool
    base_model: str

    @property
    def family(self) -> str:
        """The ``model_type`` of its backbone."""
        return str(self.backbone.get("model_type"))

    def describe(self) -> dict[str, object]:
        """Return what of it can change a number, for the protocol."""
        return {
            "layout": self.layout,
            "bins": self.bins,
            "preference_asks_progress": self.preference_asks_progress,
        }


def read_config(folder: Path, headers: Sequence[Header]) -> RobometerConfig | None:
    """Return the config of the Robometer checkpoint in a folder; ``None`` where it is another kind of checkpoint.

    Raises:
        ModelError: It is one, and a field has no meaning or says what is not supported; the message names it.
    """
    config = read_object(folder, "config.json")
    named = {name: tensor for header in headers for name, tensor in header.tensors.items()}
    if config.get("type") != "robometer" and MARK not in named:
        return None
    layout: Layout = "lerobot" if config.get("type") == "robometer" else "robometer"
    where = f"{shown(folder / 'config.json')}: "
    backbone = config.get("vlm_config") if layout == "lerobot" else config
    if not isinstance(backbone, dict) or backbone.get("model_type") not in FAMILIES:
        family = backbone.get("model_type") if isinstance(backbone, dict) else backbone
        raise ModelError(
            f"{where}the backbone of this Robometer checkpoint is {brief(family)}; supported: {', '.join(FAMILIES)}."
        )
    stated = _Stated(config, where) if layout == "lerobot" else _yaml(folder)
    for name in ("use_per_frame_progress_token", "use_multi_image"):
        if stated.flag(name, default=True) is False:
            raise ModelError(
                f"{stated.where}{name} is false: this checkpoint reads progress at image tokens. Supported are those "
                "with a token after each image, as Robometer-4B has."
            )
    rows = named[LAST].shape[:1] if LAST in named else ()
    return RobometerConfig(
        layout,
        backbone,
        _bins(stated, *rows),
        stated.flag("predict_pref_progress", default=True),
        stated.text("base_model_id"),
    )


@dataclass(frozen=True)
class _Stated:
    """Fields of a heads' config, by name, and the file for messages."""

    fields: Mapping[str, Any]
    where: str

    def flag(self, name: str, *, default: bool) -> bool:
        value = self.fields.get(name)
        if value is not None and not isinstance(value, bool):
            raise ModelError(f"{self.where}{name} is {brief(value)}; it is true or false.")
        return default if value is None else value

    def number(self, name: str, least: int, most: int) -> int | None:
        return whole_number(self.fields, name, self.where, least, most)

    def text(self, name: str) -> str:
        value = self.fields.get(name)
        if value is not None and (not isinstance(value, str) or not value.isprintable() or len(value) > 200):
            raise ModelError(f"{self.where}{name} is {brief(value)}; it is the name of a model.")
        return value or ""


def _yaml(folder: Path) -> _Stated:
    """Return the fields of ``config.yaml``, those of its sections together; a checkpoint may be without."""
    where = f"{shown(folder / 'config.yaml')}: "
    if not has_file(folder, "config.yaml"):
        return _Stated({}, where)
    content = read_yaml(checked_file(folder, "config.yaml"), ModelError, max_bytes=MAX_CONFIG_BYTES)
    if not isinstance(content, dict):
        raise ModelError(f"{where}it is {brief(content)}, not fields by name.")
    fields: dict[str, Any] = {}
    for section in ("model", "training", "data", "loss"):
        found = content.get(section) or {}
        if not isinstance(found, dict):
            raise ModelError(f"{where}{section} is {brief(found)}; it is fields by name.")
        # A value such as ${loss.progress_loss_type} stands for that of another section.
        fields |= {name: value for name, value in found.items() if not str(value).startswith("${")}
    return _Stated(fields, where)


def _bins(stated: _Stated, rows: int | None = None) -> int:
    """Return the number of bins: what is stated, else what the head's last tensor has; both must agree."""
    kind = stated.fields.get("progress_loss_type")
    if kind not in (None, "l1", "l2", "discrete"):
        raise ModelError(f"{stated.where}progress_loss_type is {brief(kind)}; it is l1, l2 or discrete.")
    bins = stated.number("progress_discrete_bins", 2, MAX_BINS) if kind == "discrete" else None
    expected = {None: rows, "discrete": bins or rows}.get(kind, 1)
    if rows is not None and rows != expected:
        raise ModelError(
            f"{stated.where}progress_loss_type is {brief(kind)}"
            f"{'' if bins is None else f' with {bins} bins'}; the progress head has {rows} outputs."
        )
    return min(expected or 1, MAX_BINS)
