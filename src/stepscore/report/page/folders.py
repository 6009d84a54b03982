"""What is in the folders that a page is asked of: runs, one audit, or one board of judges."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from stepscore._untrusted import shown
from stepscore.audit import is_audit
from stepscore.audit.board import is_board
from stepscore.errors import OptionError

Kind = Literal["runs", "audit", "board"]


def page_kind(folders: Sequence[Path]) -> Kind:
    """Return what a page of these folders is of.

    Raises:
        OptionError: The folder of an audit or of a board is not the only one.
    """
    kinds: list[Kind] = [
        "board" if is_board(one) else "audit" if is_audit(one) else "runs" for one in folders
    ]
    found = next((at for at, kind in enumerate(kinds) if kind != "runs"), None)
    if found is None:
        return "runs"
    if len(folders) > 1:
        what = "an audit" if kinds[found] == "audit" else "a board of judges"
        raise OptionError(
            f"{shown(folders[found])} is the folder of {what}, which has a page of its own. Name it alone."
        )
    return kinds[found]
