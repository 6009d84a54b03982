"""An account that counts and keeps nothing: of live videos outside of a run, whose answers are never cached."""

from __future__ import annotations

from stepscore.errors import BudgetError
from stepscore.models.calls.claims import CallOutcome, Waiter
from stepscore.models.calls.options import Budget
from stepscore.models.responses import Response


class UnstoredAccount:
    """See :class:`stepscore.models.calls.Account`.

    Args:
        budget: The most calls; a limit in money is not counted here.

    Attributes:
        attempts: Attempts begun.
    """

    def __init__(self, budget: Budget | None = None) -> None:
        self._budget = budget or Budget()
        self.attempts = 0

    async def find(self, key: str, kind: type[Response]) -> Response | None:
        """Return ``None``: nothing is kept."""
        return None

    def forget(self, key: str) -> None:
        """Do nothing."""

    async def claim(
        self, key: str, kind: type[Response], waiter: Waiter | None, *, served: bool
    ) -> Response | None:
        """Return ``None``: every call is made."""
        return None

    def release(self, key: str, outcome: CallOutcome | None) -> None:
        """Do nothing."""

    async def begin(self, key: str, model: str, bound: float | None, waiter: Waiter | None) -> int:
        """Count an attempt."""
        if self._budget.max_calls is not None and self.attempts >= self._budget.max_calls:
            raise BudgetError(self._budget.spent_calls())
        self.attempts += 1
        return self.attempts

    def end(
        self, number: int, state: str, cost: float | None, answer: Response | None, failure: str = ""
    ) -> None:
        """Do nothing."""

    async def settled(self) -> None:
        """Do nothing."""
