"""Where the simulator is missing, its tests say so loudly; on CI they fail."""

from __future__ import annotations

import os
from ctypes.util import find_library
from importlib.util import find_spec

import pytest


@pytest.fixture(scope="session")
def simulator() -> None:
    """Meta-World, MuJoCo and the library that renders in software."""
    missing = [name for name in ("metaworld", "mujoco") if find_spec(name) is None]
    if os.environ.get("MUJOCO_GL", "osmesa") == "osmesa" and find_library("OSMesa") is None:
        missing.append("libosmesa6")
    if missing and os.environ.get("CI") == "true":
        pytest.fail(f"the simulator is required on CI, and there is no {', '.join(missing)}")
    if missing:
        pytest.skip(f"SIMULATOR ABSENT: no {', '.join(missing)}; nothing of it was tested")
