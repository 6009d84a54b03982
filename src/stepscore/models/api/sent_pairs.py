"""What a server was sent already: pairs of frames that it keeps, so that a longer prefix sends only what is new.

vLLM keeps what it read of a video under the name that a request gives it (``uuid``), and takes the name alone
afterwards. It may have lost it: evicted, or restarted. Then it refuses the request, and the pairs are sent again.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

from stepscore.errors import RefusedError, StatusError, TransientModelError
from stepscore.models.api.frame_pairs import FramePair
from stepscore.models.api.raw_turn import video_part

LOST = "Cache miss"
"""Part of vLLM's message for a name whose frames it does not have."""
MOST_LOST = 3
"""Refusals in a row after which frames are always sent: the server keeps nothing (``--mm-processor-cache-gb 0``)."""
MOST_NAMES = 100_000
"""Names that are remembered; with more, all are forgotten, and the frames sent once again."""


class SentPairs:
    """The pairs of frames that one server has, by name. The salt of their names is drawn once, for one run."""

    def __init__(self) -> None:
        self._salt = secrets.token_hex(16)
        self._names: set[str] = set()
        self._lost = 0

    @asynccontextmanager
    async def sending(self, pairs: Sequence[FramePair]) -> AsyncIterator[list[dict[str, Any]]]:
        """Yield the parts of a request that show these pairs; remember them when it was answered.

        Raises:
            RefusedError: The server lost some of them. The next attempt sends all.
        """
        names, parts = await asyncio.to_thread(self._parts, pairs)
        try:
            yield parts
        except (StatusError, TransientModelError) as error:
            self._names.difference_update(names)
            if isinstance(error, StatusError) and LOST in str(error):
                self._lost += 1
                raise RefusedError(f"{error} Sending the frames again.", 0.0) from error
            raise
        if any(part["video_url"] is None for part in parts):
            self._lost = 0
        if self._lost < MOST_LOST:
            self._names.update(names)
        if len(self._names) > MOST_NAMES:
            self._names.clear()

    def _parts(self, pairs: Sequence[FramePair]) -> tuple[list[str], list[dict[str, Any]]]:
        names = [pair.uuid(self._salt) for pair in pairs]
        known = [name in self._names for name in names]
        parts = zip(pairs, names, known, strict=True)
        return names, [video_part(pair, name, known=seen) for pair, name, seen in parts]
