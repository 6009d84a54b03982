"""Folders of boards of judges, made without judging."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

VALUES = {"careful": 0.9, "cheap": 0.7, "beaten": 0.6, "clock": 0.5}
TOKENS = {"careful": 9000, "cheap": 100, "beaten": 5000, "clock": 0}


def estimate(value: float | None) -> dict[str, Any]:
    """An estimate as a board stores it."""
    ends = {"lo": None, "hi": None} if value is None else {"lo": value - 0.05, "hi": value + 0.05}
    return {"value": value, **ends, "n": 40, "clusters": 10, "coverage": 1.0, "method": "BCa bootstrap 95%"}


def board_row(name: str, text: str = "", **changes: Any) -> dict[str, Any]:
    """A row of one of the planted judges."""
    return {
        "label": f"{text}{name}",
        "judge": f"{text}{name}",
        "model": None,
        "options": {"frames": 8, "text": text},
        "protocol_hash": "0123456789abcdef",
        "trivial": name == "clock",
        "claimed_by": None,
        "estimates": {"auc": estimate(VALUES[name]), "error": estimate(1 - VALUES[name])},
        "cost": {
            "videos": 10,
            "calls": 10,
            "tokens_in": 10 * TOKENS[name],
            "tokens_out": 0,
            "cost": None,
            "seconds_per_episode": 1.5,
        },
        "pareto": name in ("careful", "cheap"),
        "reason": None,
        **changes,
    }


def planted_board(folder: Path, text: str = "") -> Path:
    """Write a board's folder: two judges on the front, one beaten, one claimed, one that cannot answer, a clock."""
    folder.mkdir(parents=True)
    claimed = board_row("beaten", text) | {"label": f"{text}claimed", "claimed_by": f"{text}somebody"}
    mute = board_row("cheap", text) | {
        "label": f"{text}mute",
        "estimates": {},
        "pareto": False,
        "reason": f"{text}it gives no curve",
    }
    board = {
        "format": 1,
        "benchmark": {
            "name": f"{text}sim-12",
            "description": f"{text}twelve tasks",
            "seed": 7,
            "episodes": 40,
            "tasks": [f"{text}open the drawer"],
            "fingerprint": "abcdef0123",
        },
        "metrics": [
            {"name": "auc", "title": f"{text}success AUC", "better": "higher", "percent": True},
            {"name": "error", "title": f"{text}error", "better": "lower", "percent": False},
        ],
        "front": {"metric": "auc", "cost": "tokens"},
        "rows": [*(board_row(name, text) for name in VALUES), claimed, mute],
        "published": [
            {
                "label": f"{text}TOPReward",
                "source": f"{text}RoboValue",
                "note": f"{text}as published",
                "values": {f"{text}SA": 61.5},
            }
        ],
    }
    (folder / "board.json").write_text(json.dumps(board), encoding="utf-8")
    return folder
