"""Every built-in judge, model, reader, metric, perturbation and probe is on its page of the docs."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

import pytest

from stepscore.audit import PROBES
from stepscore.episodes import PERTURBATIONS, reader_registry
from stepscore.judges import judge_registry
from stepscore.metrics import metric_registry
from stepscore.models import model_registry
from stepscore.registry import Registry
from tests.paths import ROOT


def built_in(registry: Registry[Any]) -> list[str]:
    return [name for name in registry.names() if registry.is_builtin(name)]


def columns() -> list[str]:
    return [c.name for name in built_in(metric_registry) for c in metric_registry.get(name).columns]


MODEL_PAGES = {
    **dict.fromkeys(("openai-api", "vllm", "sglang"), "docs/models/served.md"),
    "hf": "docs/models/hf.md",
    "embedded": "docs/models/embedded.md",
    "sarm": "docs/judges/sarm.md",
    "mock": "docs/reference/extending.md",
}
PAGES = {
    "judge": ("docs/judges/index.md", built_in(judge_registry)),
    "reader": ("docs/data/readers.md", built_in(reader_registry)),
    "metric": ("docs/methods/metrics.md docs/methods/opd.md", columns()),
    "perturbation": ("docs/data/perturbations.md", list(PERTURBATIONS)),
    "probe": ("docs/methods/audit.md", list(PROBES)),
}


def unnamed(names: Iterable[str], pages: str) -> list[str]:
    """Names that open no code span, link or parenthesis on these pages."""
    text = "\n".join((ROOT / page).read_text(encoding="utf-8") for page in pages.split())
    return [
        name
        for name in names
        if not re.search(rf"(?:`|\[|\(|\[[\w, -]*, ){re.escape(name)}(?:`|/|\]|\)|, | )", text)
    ]


@pytest.mark.parametrize("kind", PAGES)
def test_every_built_in_is_on_its_page(kind: str) -> None:
    pages, names = PAGES[kind]
    missing = unnamed(names, pages)
    assert names
    assert not missing, f"add each {kind} to {pages}: {', '.join(missing)}"


@pytest.mark.parametrize("name", built_in(model_registry))
def test_every_model_is_on_its_page(name: str) -> None:
    assert name in MODEL_PAGES, f"add the model {name!r} to MODEL_PAGES in {__file__}"
    assert not unnamed([name], MODEL_PAGES[name]), f"add `{name}` to {MODEL_PAGES[name]}"


def test_a_name_that_is_on_no_page_is_found() -> None:
    assert unnamed(["topreward", "top", "image-difference", "no-such"], "docs/judges/index.md") == [
        "top",
        "no-such",
    ]
