"""The account of a run: answers, claims, attempts and money. The process that owns the run folder has the only one.

An attempt is recorded before it is sent and counts against the budget, retries and lost answers included; killing
the process loses none. An answered call is never sent again: it is in the cache (``answer_cache.py``). A call under
way is waited for, also if another owner on this machine sent it (``claims.py``). Everything runs in one event loop,
so the budget is exact.
"""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

from stepscore._journals import Lease
from stepscore.errors import BudgetError, ModelError
from stepscore.models.calls.answer_cache import CallCache
from stepscore.models.calls.attempts import Attempts, OpenAttempts, Spent
from stepscore.models.calls.claims import CallOutcome, ClaimTable, HeldClaim, Waiter, new_owner, take_claim
from stepscore.models.calls.options import CallOptions
from stepscore.models.calls.shared_folder import AttemptsJournal, SharedAnswers
from stepscore.models.responses import Response

ATTEMPTS_DATABASE, ATTEMPTS_JOURNAL, SHARED_ANSWERS = "attempts.sqlite", "attempts.jsonl", "answers.jsonl"
"""Files of a run folder that the account writes; the last two if machines share the folder."""


class Account(Protocol):
    """The account as the call chain uses it; in a worker, each method is a message to the owner.

    ``waiter`` is paused while a method waits for another call.
    """

    async def find(self, key: str, kind: type[Response]) -> Response | None:
        """Return the cached answer to a call; ``None`` if there is no readable one."""

    def forget(self, key: str) -> None:
        """Delete an unusable answer, so that the call is made again."""

    async def claim(
        self, key: str, kind: type[Response], waiter: Waiter | None, *, served: bool
    ) -> Response | None:
        """Claim a call and return ``None``; if the same call is under way, return or raise its outcome.

        ``served`` says that other owners on this machine may call the same server.
        """

    def release(self, key: str, outcome: CallOutcome | None) -> None:
        """End a claim with the outcome of its call; ``None`` if it was cancelled."""

    async def begin(self, key: str, model: str, bound: float | None, waiter: Waiter | None) -> int:
        """Record an attempt before it is sent, and return its number; raise BudgetError if it is over the budget.

        ``bound`` is the most that it can cost. It may wait for attempts under way, which may cost less than theirs.
        """

    def end(
        self, number: int, state: str, cost: float | None, answer: Response | None, failure: str = ""
    ) -> None:
        """Store the answer of an attempt, then record its state (see ``attempts.py``) and cost; ``None``: the bound.

        ``failure`` says why there is no answer.
        """

    async def settled(self) -> None:
        """Wait until all calls under way have ended, so that none of their answers is lost."""


class RunAccount:
    """The account in the process that owns a run folder.

    With a lease, machines share the folder: attempts are then lines of a file, and answers are kept beside them for
    another machine.
    """

    def __init__(self, folder: Path, options: CallOptions, lease: Lease | None = None) -> None:
        self._folder, self._options, self._lease = folder, options, lease
        # What earlier starts left is opened at once: damage must be found before the first call.
        kept = any((folder / name).exists() for name in (ATTEMPTS_DATABASE, ATTEMPTS_JOURNAL))
        self._opened: OpenAttempts | None = self._open_attempts() if kept else None
        self._cache: CallCache | SharedAnswers | None = None
        self._owner = new_owner()
        self._claims = ClaimTable()
        self._shared: dict[str, HeldClaim] = {}
        self._sent: dict[int, tuple[str, str, object]] = {}
        self._failure = ""

    def close(self) -> None:
        """Close the files."""
        for file in (self._opened, self._cache):
            if file is not None:
                file.close()

    def spent(self) -> tuple[Spent, Spent]:
        """Return attempts and cost of this start, and of all starts of the run."""
        if self._opened is None:
            return Spent(), Spent()
        return self._opened.this_start(), self._opened.total()

    async def find(self, key: str, kind: type[Response]) -> Response | None:
        """See :class:`Account`."""
        cache = self._open_cache()
        if cache is None or (kept := cache.get(key)) is None:
            return None
        try:
            return kind.unpack(kept)
        except ModelError:
            cache.forget(key)
            return None

    def forget(self, key: str) -> None:
        """See :class:`Account`."""
        if self._cache is not None:
            self._cache.forget(key)

    async def claim(
        self,
        key: str,
        kind: type[Response],
        waiter: Waiter | None,
        *,
        served: bool,
        holder: object = None,
    ) -> Response | None:
        """See :class:`Account`; ``holder`` is the worker that asks, whose call was not looked up yet."""
        found = await self._claims.claim(key, waiter, holder)
        cache = self._open_cache()
        if found is not None or cache is None or (holder is None and not served):
            return found
        try:
            if (found := await self.find(key, kind)) is None and served:
                self._shared[key] = await take_claim(cache, key, self._owner, waiter)
                # Whoever held the claim before may have brought the answer.
                found = await self.find(key, kind)
        except BaseException:
            self.release(key, None, holder)
            raise
        if found is not None:
            self.release(key, found, holder)
        return found

    def release(self, key: str, outcome: CallOutcome | None, holder: object = None) -> None:
        """See :class:`Account`."""
        if self._claims.release(key, outcome, holder) and (held := self._shared.pop(key, None)) is not None:
            held.give_back()

    def take_over(self, key: str) -> None:
        """Keep a worker's claim for this process, which asks for it now: the call survives the worker."""
        self._claims.give(key, None)

    def lose(self, holder: object) -> None:
        """Release the claims of a worker that is gone; the attempts it had under way stay counted."""
        for key in self._claims.held_by(holder):
            self.release(key, None, holder)
        for number in [
            number for number, sent in self._sent.items() if holder is not None and sent[2] is holder
        ]:
            self.end(number, "sent", None, None)

    async def begin(
        self, key: str, model: str, bound: float | None, waiter: Waiter | None, holder: object = None
    ) -> int:
        """See :class:`Account`; ``holder`` as in :meth:`claim`."""
        attempts, limit, most = self._attempts, self._options.budget, bound or 0.0
        while True:
            made, paid = attempts.spent()
            if limit.max_calls is not None and made >= limit.max_calls:
                raise BudgetError(limit.spent_calls() + self._failure)
            if limit.max_cost is None or paid + most <= limit.max_cost:
                break
            if not attempts.open:
                raise BudgetError(limit.spent_cost(most, paid) + self._failure)
            if waiter is not None:
                waiter.pause()
            await attempts.one_ended()
        if waiter is not None:
            waiter.resume()
        number = attempts.begin(key, bound)
        self._sent[number] = key, model, holder
        return number

    def end(
        self, number: int, state: str, cost: float | None, answer: Response | None, failure: str = ""
    ) -> None:
        """See :class:`Account`."""
        if (sent := self._sent.pop(number, None)) is None:
            return  # it counted as lost with its worker
        if failure:
            self._failure = f" The last attempt that failed: {failure}"
        try:
            if answer is not None and (cache := self._open_cache()) is not None:
                # Before the attempt ends: if killed in between, the answer is kept and its cost overstated.
                cache.put(sent[0], sent[1], answer.pack())
            self._attempts.end(number, state, cost)
        finally:
            self._attempts.ended()

    async def settled(self) -> None:
        """See :class:`Account`."""
        await self._claims.settled()

    @property
    def _attempts(self) -> OpenAttempts:
        if self._opened is None:
            self._opened = self._open_attempts()
        return self._opened

    def _open_attempts(self) -> OpenAttempts:
        """Open the record of attempts, of the kind that earlier starts of the run used."""
        database, journal = self._folder / ATTEMPTS_DATABASE, self._folder / ATTEMPTS_JOURNAL
        if database.exists() or (self._lease is None and not journal.exists()):
            return Attempts(database)
        return AttemptsJournal(journal, lambda: None if self._lease is None else self._lease.check())

    def _open_cache(self) -> CallCache | SharedAnswers | None:
        if self._cache is None and self._options.cache:
            self._cache = cache = CallCache(self._options.cache_path)
            if self._lease is not None:
                self._cache = SharedAnswers(cache, self._folder / SHARED_ANSWERS, self._lease.check)
        return self._cache
