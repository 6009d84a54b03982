"""The reward model ``stepscore``: it has no weights of its own, and asks a judge."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch
from lerobot.rewards.pretrained import PreTrainedRewardModel
from torch import Tensor

from lerobot_policy_stepscore.configuration_stepscore import StepScoreConfig


class StepScoreRewardModel(PreTrainedRewardModel):
    """Returns the judge's progress, or success, at the last frame of each video of a batch."""

    name = "stepscore"
    config_class = StepScoreConfig

    def __init__(self, config: StepScoreConfig, **kwargs: Any) -> None:
        super().__init__(config)
        if config.url is not None:
            from stepscore.rewards import RemoteJudge

            token = None if config.token_file is None else Path(config.token_file)
            self._judge: Any = RemoteJudge(config.url, token)
        else:
            from stepscore.judges import get_judge

            self._judge = get_judge("topreward", model=config.model, sampling="causal")

    def compute_reward(self, batch: dict[str, Any]) -> Tensor:
        """Return one value for each video, shape (B,); ``fill`` where the judge does not know."""
        from stepscore.episodes import Clip

        videos = _videos(batch[self.config.image_key])
        tasks = _tasks(batch.get(self.config.task_key), len(videos), self.config.default_task)
        fps = self.config.fps or self._judge.fps
        rewards = []
        for frames, task in zip(videos, tasks, strict=True):
            clip = Clip(frames, np.arange(len(frames)) / fps, np.arange(len(frames)))
            with self._judge.open(task) as session:
                curves = [each for each in (session.add(clip), session.finish()) if len(each)]
            rewards.append(self._value(curves[-1]) if curves else np.nan)
        values = np.array(rewards, dtype=np.float32)
        values[np.isnan(values)] = self.config.fill
        return torch.from_numpy(values).to(self.config.device or "cpu")

    def _value(self, curve: Any) -> float:
        if self.config.output == "progress":
            return float(curve.progress[-1])
        channel = "success_probability" if "success_probability" in curve.channels else "success"
        return float(curve.channels[channel][-1])

    def _save_pretrained(self, save_directory: Path) -> None:
        """Save the configuration: there are no weights."""
        self.config._save_pretrained(save_directory)  # noqa: SLF001 (as LeRobot's own models)

    @classmethod
    def from_pretrained(
        cls, pretrained_name_or_path: str | Path, *, config: Any = None, **kwargs: Any
    ) -> StepScoreRewardModel:
        """Return the reward model of a saved configuration."""
        if config is None:
            config = cls.config_class.from_pretrained(pretrained_name_or_path)
        return cls(config).eval()


def _videos(images: Tensor) -> Any:
    """Return videos (B, T, H, W, 3) of uint8."""
    frames = images.detach().cpu()
    if frames.ndim == 4:
        frames = frames.unsqueeze(1)
    if frames.ndim != 5:
        raise ValueError(f"frames must be (B, C, H, W) or (B, T, C, H, W), got {tuple(frames.shape)}")
    if frames.shape[2] == 3 and frames.shape[-1] != 3:
        frames = frames.permute(0, 1, 3, 4, 2)
    if frames.is_floating_point():
        frames = (frames * 255.0).round()
    return frames.clamp(0, 255).to(torch.uint8).contiguous().numpy()


def _tasks(given: Any, n: int, default: str | None) -> list[str]:
    if given is None:
        given = default
    if given is None:
        raise KeyError("the batch has no task; set default_task")
    tasks = [given] * n if isinstance(given, str) else list(given)
    if len(tasks) != n:
        raise ValueError(f"the batch has {n} videos and {len(tasks)} tasks")
    return tasks
