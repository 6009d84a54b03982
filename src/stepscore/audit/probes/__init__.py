"""The probes by name."""

from collections.abc import Mapping, Sequence

from stepscore.audit.probe import Probe
from stepscore.audit.probes.images import IMAGE_PROBES, STILL_PROBES
from stepscore.audit.probes.instructions import INSTRUCTION_PROBES
from stepscore.audit.probes.replays import REPLAY_PROBES
from stepscore.audit.probes.time import TIME_PROBES
from stepscore.errors import UnknownNameError

__all__ = ["PROBES", "choose_probes"]

PROBES: Mapping[str, Probe] = {
    probe.name: probe
    for probe in (*STILL_PROBES, *REPLAY_PROBES, *TIME_PROBES, *INSTRUCTION_PROBES, *IMAGE_PROBES)
}
"""Every probe by name, in the order of the tables."""


def choose_probes(names: Sequence[str] | None = None) -> tuple[Probe, ...]:
    """Return the probes with these names in the tables' order; all for ``None`` or ``["all"]``."""
    if names is None or list(names) == ["all"]:
        return tuple(PROBES.values())
    for name in names:
        if name not in PROBES:
            raise UnknownNameError("probe", name, PROBES)
    return tuple(probe for probe in PROBES.values() if probe.name in names)
