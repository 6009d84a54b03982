"""Rewordings of a judge's template, proposed by the judge's model and checked before use.

This is a simple form of the prompt optimisation that StepEval's paper proposes (arXiv 2509.19524). The model
suggests rewordings, and the labels decide.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, runtime_checkable

from stepscore._files import write_json, write_text
from stepscore._untrusted import parse_json, read_text
from stepscore.episodes import Episode
from stepscore.errors import ModelError, OptionError, RunError
from stepscore.judges import Judge, only_model
from stepscore.judges.common import json_values, load_prompt, strip_thinking
from stepscore.models import Generate, Model, Prompt, Turn, run_blocking
from stepscore.models.calls import Call, opened_chain
from stepscore.runs import CallOptions

MAX_REWRITES = 50
"""Largest number of rewordings per request."""

TEMPERATURE, TOKENS_EACH = 0.7, 400
"""Sampling temperature, and tokens per rewording."""

_MARKS = re.compile(r"\{\{\w+\}\}|\{\w+\}|^\?\w+:|^\[.+\]$", re.MULTILINE)


@runtime_checkable
class TemplateJudge(Protocol):
    """A judge whose option ``template`` can be a path to a text file."""

    def template_text(self) -> str:
        """Return the text of the judge's template."""


@dataclass(frozen=True)
class Rewrites:
    """Files of the accepted rewordings, and the reason for rejecting each of the others."""

    paths: tuple[Path, ...] = ()
    dropped: tuple[str, ...] = ()


def check_rewritable(judge: Judge) -> Model:
    """Return the model to use for rewording the judge's template.

    Raises:
        OptionError: The judge has no template, or its model does not generate text.
    """
    if not isinstance(judge, TemplateJudge):
        raise OptionError(
            f"-T rewrite rewords the template of a judge, and {judge.name!r} takes none. One that does: stepeval."
        )
    model = only_model(judge)
    if model is None or not model.capabilities.generate or model.name == "embedded":
        named = "it has several models" if model is None else f"{model.name} was not made to write"
        raise OptionError(f"-T rewrite asks the judge's own model for rewordings, and {named}.")
    return model


def marks_of(text: str) -> Counter[str]:
    """Count a template's markup elements: fields, image placeholders, conditions and sections."""
    return Counter(_MARKS.findall(text))


def check_rewording(text: object, template: str, others: Sequence[str] = ()) -> str | None:
    """Return the reason for rejecting a rewording (``others`` were already accepted); ``None`` if valid."""
    if not isinstance(text, str) or not text.strip() or text != text.encode(errors="replace").decode():
        return "it is no text"
    wanted, found = marks_of(template), marks_of(text)
    if missing := sorted((wanted - found).elements()):
        return f"it lacks {', '.join(missing)}"
    if added := sorted((found - wanted).elements()):
        return f"it adds {', '.join(added)}"
    if len(text) > 2000 + 4 * len(template):
        return f"it has {len(text)} characters, and the template {len(template)}"
    same = {" ".join(each.split()).casefold() for each in (template, *others)}
    return "it repeats another" if " ".join(text.split()).casefold() in same else None


def rewrite(
    judge: Judge, count: int, folder: Path, *, call_options: CallOptions | None = None, seed: int = 0
) -> Rewrites:
    """Ask the judge's model to reword its template; write the usable rewordings as text files.

    Answers are cached in the folder, so a repeated question is answered from the cache.
    """
    model = check_rewritable(judge)
    assert isinstance(judge, TemplateJudge)
    template = judge.template_text()
    question = hashlib.sha256(f"{seed}\0{count}\0{template}".encode()).hexdigest()[:8]
    kept = folder / f"answer-{question}.json"
    folder.mkdir(parents=True, exist_ok=True)
    proposed = _read(kept) if kept.exists() else None
    if proposed is None:
        proposed = _ask(model, _request(template, count, seed), folder, call_options or CallOptions())
        write_json(kept, {"template": template, "rewordings": proposed})
    accepted: list[str] = []
    paths: list[Path] = []
    dropped: list[str] = []
    for number, text in enumerate(proposed[:count], start=1):
        if (why := check_rewording(text, template, accepted)) is not None:
            dropped.append(f"Rewording {number} is not tried: {why}.")
            continue
        accepted.append(str(text).strip())
        path = folder / f"rewrite-{question}-{number}.txt"
        write_text(path, accepted[-1] + "\n")
        paths.append(path)
    if (missing := count - len(proposed)) > 0:
        dropped.append(f"{missing} of {count} rewordings were not given.")
    return Rewrites(tuple(paths), tuple(dropped))


def _request(template: str, count: int, seed: int) -> Generate:
    marks = sorted(marks_of(template))
    fields = {"template": template, "count": count, "marks": " ".join(marks)}
    parts = load_prompt("rewrite", "stepscore.audit.tune").parts(
        fields, {}, when=["marks" if marks else "plain"]
    )
    prompt = Prompt((Turn("user", parts),))
    return Generate(prompt, max_tokens=TOKENS_EACH * count, temperature=TEMPERATURE, seed=seed, json=True)


def _ask(model: Model, request: Generate, folder: Path, call_options: CallOptions) -> list[object]:
    """Return the texts proposed by the model; an answer without any is removed from the cache."""
    calls: list[Call] = []
    with opened_chain(folder, call_options, model) as chain:
        answer = run_blocking(chain.ask_about(Episode("rewrite", "rewrite"), calls)(request))
        for value in json_values(strip_thinking(answer.text)):
            if isinstance(value, dict) and isinstance(value.get("rewordings"), list):
                return list(value["rewordings"])
        chain.forget(calls)
        raise ModelError(f"{model.name} gave no rewordings: {answer.text[:80]!r}.")


def _read(path: Path) -> list[object] | None:
    """Return the rewordings stored in a file; ``None`` if it has none."""
    stored = parse_json(read_text(path, RunError), str(path), RunError)
    found = stored.get("rewordings") if isinstance(stored, dict) else None
    return list(found) if isinstance(found, list) else None
