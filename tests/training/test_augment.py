"""Augmented clips: every frame is changed alike, and as a sampling grid would."""

from __future__ import annotations

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812  # the usual name

from stepscore.training.augment import SHIFT, ZOOM, augmented


def test_a_moved_clip_is_what_a_sampling_grid_makes_of_it() -> None:
    frames = np.random.default_rng(5).integers(0, 256, (4, 40, 40, 3), dtype=np.uint8)
    found, moved = 0, 0
    for seed in range(30):
        rng = np.random.default_rng(seed)
        changed = augmented(frames, rng, share=0.5)
        again = np.random.default_rng(seed)
        turned, coarse = again.random() < 0.5, again.random() < 0.15 * 0.5
        if not turned or coarse:
            continue
        scale = 1.0 + again.uniform(-ZOOM, ZOOM)
        dx, dy = again.uniform(-2 * SHIFT, 2 * SHIFT, 2)
        if again.random() < 0.5:
            continue  # brighter or darker as well
        turn = torch.tensor([[[scale, 0.0, dx], [0.0, scale, dy]]], dtype=torch.float32)
        grid = F.affine_grid(turn, [1, 3, 40, 40], align_corners=False).expand(4, -1, -1, -1)
        images = torch.from_numpy(frames).permute(0, 3, 1, 2).float()
        wanted = F.grid_sample(images, grid, mode="bilinear", padding_mode="border", align_corners=False)
        off = np.abs(changed.astype(int) - wanted.permute(0, 2, 3, 1).round().numpy().astype(int))
        assert off.max() <= 1
        found += 1
        moved += int(np.abs(changed.astype(int) - frames.astype(int)).max() > 20)
    assert found >= 5
    assert moved == found


def test_without_a_share_nothing_changes() -> None:
    frames = np.random.default_rng(1).integers(0, 256, (2, 16, 16, 3), dtype=np.uint8)
    assert augmented(frames, np.random.default_rng(0), share=0.0) is frames
