"""What is in the folders that a page is asked of: runs, or one audit."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from stepscore._reading import shown
from stepscore.audit import is_audit
from stepscore.errors import OptionError

Kind = Literal["runs", "audit"]


def page_kind(folders: Sequence[Path]) -> Kind:
    """Return what a page of these folders is of.

    Raises:
        OptionError: An audit's folder is not the only one.
    """
    found = next((folder for folder in folders if is_audit(folder)), None)
    if found is None:
        return "runs"
    if len(folders) > 1:
        raise OptionError(
            f"{shown(found)} is the folder of an audit, which has a page of its own. Name it alone, or name its "
            f"runs: {shown(found / 'judge')}"
        )
    return "audit"
