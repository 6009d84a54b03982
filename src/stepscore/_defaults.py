"""Choices that the command line, the page and Python share; it imports nothing, so that help pages start at once."""

from __future__ import annotations

DEFAULT_REVISION = "v1.0"
"""The OPD revision where none is named; ``docs/methods/opd.md`` says why it is this one."""
