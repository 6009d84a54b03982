"""Choices that the command line, the page and Python share; it imports no room, so that help pages start at once."""

from __future__ import annotations

from typing import Literal

SceneChoice = Literal["auto", "fixed", "sample"]
"""What numbers speak of: ``fixed``, the scenes that were tried; ``sample``, scenes like them; ``auto``, the scenes
that were tried where they are few and tried repeatedly (``stepscore.analysis.pooling``)."""

DEFAULT_REVISION = "robust"
"""The OPD revision of every table, page and figure if none is named; ``docs/methods/opd.md`` says why."""
