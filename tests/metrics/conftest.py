"""Property tests of the metrics fail on wrong numbers, never on a busy machine."""

from __future__ import annotations

from hypothesis import settings

settings.register_profile("metrics", deadline=None)
settings.load_profile("metrics")
