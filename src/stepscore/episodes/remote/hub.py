"""Addresses on the Hugging Face Hub: which repository, at which commit.

``user/name`` is ``hf://datasets/user/name``. A branch can move while a dataset is being read, so an address
is first pinned to a commit: ``hf://datasets/user/name@COMMIT``. All processes then list and read the dataset
at that commit.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Any
from urllib.parse import unquote

from stepscore.episodes.remote.reasons import reason, status_of
from stepscore.errors import MissingExtraError, SourceError

TIMEOUT_S = 30.0
"""Seconds without an answer after which a request counts as lost."""

ATTEMPTS = 6
MAX_WAIT_S = 300.0
"""Longest wait between two attempts that a server may request, in seconds."""

_KINDS = {"datasets": "dataset", "spaces": "space", None: "model"}
_URL = re.compile(
    r"hf://(?:(?P<kind>datasets|spaces)/)?(?!(?:datasets|spaces|models|buckets)/)(?P<repo_id>[^/@]+/[^/@]+)"
    r"(?:@(?P<revision>refs/(?:convert|pr)/[^/]+|[^/]+))?(?:/(?P<folder>.+))?"
)
_COMMIT = re.compile(r"[0-9a-f]{40}")


@dataclass(frozen=True)
class HubFolder:
    """A folder of a repository on the Hub.

    Attributes:
        kind: ``dataset``, ``model`` or ``space``.
        repo_id: ``user/name``.
        revision: A branch, tag or commit; ``None`` is the default branch.
        folder: POSIX path in the repository; empty for all of it.
    """

    kind: str
    repo_id: str
    revision: str | None = None
    folder: str = ""

    @property
    def name(self) -> str:
        """The repo id, followed by the folder if it is not the repository's root."""
        return f"{self.repo_id}/{self.folder}" if self.folder else self.repo_id

    @property
    def is_pinned(self) -> bool:
        """Whether the revision is a commit, which never changes."""
        return self.revision is not None and _COMMIT.fullmatch(self.revision) is not None

    @property
    def url(self) -> str:
        """The folder's URL."""
        prefix = "" if self.kind == "model" else f"{self.kind}s/"
        revision = "" if self.revision is None else f"@{self.revision.replace('/', '%2F')}"
        return f"hf://{prefix}{self.repo_id}{revision}{'/' if self.folder else ''}{self.folder}"

    def path(self, name: str) -> str:
        """Return the path in the repository of a file of this folder."""
        return f"{self.folder}/{name}" if self.folder else name


def dataset_url(repo_id: str) -> str:
    """Return the URL of the dataset ``user/name``, which may name a revision: ``user/name@v2.0``."""
    return f"hf://datasets/{repo_id}"


@lru_cache(maxsize=256)
def hub_folder(url: str) -> HubFolder | None:
    """Return the repository and folder of a URL of the Hub; ``None`` for other URLs, and for the Hub's buckets."""
    match = _URL.fullmatch(url)
    if match is None:
        return None
    revision = match["revision"]
    return HubFolder(
        _KINDS[match["kind"]],
        match["repo_id"],
        None if revision is None else unquote(revision),
        match["folder"] or "",
    )


def is_offline(folder: HubFolder) -> bool:
    """Return whether the user has turned off requests to the Hub (``HF_HUB_OFFLINE=1``)."""
    hub_package(f"Reading {folder.repo_id} from the Hub")
    from huggingface_hub import constants

    return bool(constants.HF_HUB_OFFLINE)


def hub_package(what: str) -> Any:
    """Return ``huggingface_hub``; if it is missing, raise an error that names the extra to install."""
    try:
        import huggingface_hub
    except ImportError:
        raise MissingExtraError(what, "hub") from None
    return huggingface_hub


def refusal(folder: HubFolder, error: Exception) -> SourceError:
    """Return a one-line error for a dataset that the Hub refused to serve."""
    status = status_of(error)
    code = getattr(error, "headers", {}).get("X-Error-Code", "")
    if code == "RevisionNotFound":
        why = f"it has no revision {folder.revision!r}. Name a branch, tag or commit"
    elif code in ("RepoNotFound", "GatedRepo") or status in (401, 403):
        why = (
            "it does not exist, or it is private or gated and you have no access. If it is your repo, run hf "
            "auth login or set HF_TOKEN"
        )
    elif status is not None:
        why = f"the Hub answered with {reason(error)}"
    elif isinstance(error, ValueError):
        why = reason(error)
    else:
        why = f"the Hub is not reached: {reason(error)}. To use what is on this machine: HF_HUB_OFFLINE=1"
    return SourceError(
        f"Cannot read {folder.kind} {folder.repo_id!r} from the Hub: {why}. "
        "A local dataset is given by the path of the folder that holds meta/info.json."
    )


def wait_before_retry(error: Exception) -> bool | float:
    """Return whether a retry may help, or the number of seconds the server asks to wait before a retry."""
    status = status_of(error)
    if status is None:
        # No response means a lost connection. Retries help neither a wrong name (ValueError) nor offline mode.
        final = isinstance(error, ValueError | FileNotFoundError)
        return not final and type(error).__name__ != "OfflineModeIsEnabled"
    if status != 429 and status < 500:
        return False
    headers = getattr(getattr(error, "response", error), "headers", {})
    wanted = str(headers.get("Retry-After", ""))
    return min(float(wanted), MAX_WAIT_S) if wanted.isdecimal() else True
