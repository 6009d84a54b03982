"""Read an audit back from its folder; every field is checked because the folder is untrusted."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from stepscore._untrusted import read_json, shown
from stepscore.audit.probe import Bound
from stepscore.audit.results import FORMAT, Audit, ProbeResult, WorstCase
from stepscore.errors import RunError, first_field_error
from stepscore.types import Estimate

FILE = "audit.json"
MAX_BYTES = 1 << 26


@dataclass(frozen=True)
class StoredAudit:
    """An audit as stored: ``agreement`` has rows of ``metrics --json``, ``policies`` sentences about policies."""

    folder: Path
    audit: Audit
    stepscore: str
    agreement: tuple[dict[str, Any], ...]
    policies: tuple[str, ...]


Text = Annotated[str, Field(max_length=100_000)]
Count = Annotated[int, Field(ge=0, le=1 << 53)]
RunName = Annotated[str, Field(max_length=200, pattern=r"^[A-Za-z0-9][\w.-]*(/[A-Za-z0-9][\w.-]*)?$")]


class _Model(BaseModel):
    model_config = ConfigDict(extra="ignore", allow_inf_nan=False, strict=True)


class _Estimate(_Model):
    value: float | None
    lo: float | None
    hi: float | None
    n: Count
    clusters: Count
    coverage: float | None
    method: Text

    def estimate(self) -> Estimate:
        return Estimate.of_values(
            self.value, self.lo, self.hi, self.n, self.clusters, self.coverage, self.method
        )


class _Worst(_Model):
    episode: Text
    changed: Text
    effect: float


class _Result(_Estimate):
    probe: Text
    family: Text
    judge: Text
    outcome: Literal["pass", "warn", "fail", "undecided"]
    bound: float
    good: Literal["above", "below"]
    effect: Text
    expectation: Text
    eligible: Count
    reason: Text
    worst: Annotated[list[_Worst], Field(max_length=1000)] = []

    def result(self) -> ProbeResult:
        return ProbeResult(
            self.probe,
            self.family,
            self.judge,
            self.estimate(),
            self.outcome,
            Bound(self.bound, self.good),
            self.expectation,
            self.effect,
            self.eligible,
            self.reason,
            tuple(WorstCase(one.episode, one.changed, one.effect) for one in self.worst),
        )


class _AgreementRow(_Estimate):
    group: dict[Text, Text | None]
    metric: Text


class _Agreement(_Model):
    rows: Annotated[list[_AgreementRow], Field(max_length=100_000)]
    policies: Annotated[list[Text], Field(max_length=10_000)] = []


class _Audit(_Model):
    format: Annotated[int, Field(ge=FORMAT, le=FORMAT)]
    stepscore: Text = ""
    created: Text
    judge: Text
    model: Text | None
    protocol_hash: Text
    source: Text
    episodes: Count
    tasks: Annotated[list[Text], Field(max_length=10_000)]
    cameras: Annotated[list[Text], Field(max_length=1000)]
    audited_cameras: Annotated[list[Text], Field(max_length=1000)] = []
    labelled: bool
    seed: int
    full: bool
    cost: float | None
    decoded: Count = 0
    results: Annotated[list[_Result], Field(max_length=1000)]
    trivial: Annotated[list[_Result], Field(max_length=10_000)]
    agreement: _Agreement | None = None
    runs: Annotated[dict[RunName, RunName], Field(max_length=100)]


def is_audit(folder: Path) -> bool:
    """Return whether a folder is that of an audit."""
    try:
        return (folder / FILE).exists() and not (folder / "run.json").exists()
    except (OSError, ValueError):  # a name that no file can have
        return False


def read_audit(folder: Path) -> StoredAudit:
    """Read an audit's folder.

    Raises:
        RunError: ``audit.json`` cannot be read or is invalid; the message names the field.
    """
    path = folder / FILE
    try:
        read = _Audit.model_validate(read_json(path, RunError, max_bytes=MAX_BYTES))
    except ValidationError as error:
        field, why = first_field_error(error)[:2]
        raise RunError(
            f"{shown(path)} is not an audit ({shown(field)}: {shown(why)}). "
            "Make one: stepscore audit SOURCE --judge J -o AUDIT"
        ) from error
    audit = Audit(
        judge=read.judge,
        model=read.model,
        protocol=read.protocol_hash,
        source=read.source,
        episodes=read.episodes,
        tasks=tuple(read.tasks),
        cameras=tuple(read.cameras),
        labelled=read.labelled,
        seed=read.seed,
        full=read.full,
        cost=math.nan if read.cost is None else read.cost,
        decoded=read.decoded,
        results=tuple(one.result() for one in read.results),
        trivial=tuple(one.result() for one in read.trivial),
        runs={name: folder / name for name in read.runs},
        created=read.created,
        audited_cameras=tuple(read.audited_cameras),
    )
    found = read.agreement or _Agreement(rows=[])
    return StoredAudit(
        folder,
        audit,
        read.stepscore,
        tuple(row.model_dump() for row in found.rows),
        tuple(found.policies),
    )
