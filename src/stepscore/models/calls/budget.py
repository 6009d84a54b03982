"""The most calls and money that a run may use."""

from __future__ import annotations

from dataclasses import dataclass, field

from stepscore.errors import OptionError
from stepscore.models.calls.prices import Price, check_amount


@dataclass(frozen=True)
class Budget:
    """The most calls and money a run may use, over all its starts; ``None`` for no limit.

    Attributes:
        max_calls: The most calls.
        max_cost: The most money.
        given: The budget that the user gave, where this is what earlier runs left of it. Messages state both.
    """

    max_calls: int | None = None
    max_cost: float | None = None
    given: Budget | None = field(default=None, compare=False)

    def __post_init__(self) -> None:
        calls = self.max_calls
        if calls is not None and (isinstance(calls, bool) or not isinstance(calls, int) or calls < 0):
            raise OptionError(f"max_calls (--max-calls) is {calls}; it must be a whole number, 0 or more.")
        check_amount(self.max_cost, "max_cost (--max-cost)")

    def spent_calls(self) -> str:
        """Return the message that all calls were made."""
        given = self.given or self
        left = (
            "" if given.max_calls == self.max_calls else f" ({self.max_calls} of them were left for this run)"
        )
        return f"The budget of {given.max_calls} calls is spent{left}; a larger --max-calls continues."

    def spent_cost(self, most: float, paid: float) -> str:
        """Return the message that the next call may cost more than is left.

        Args:
            most: The most it may cost.
            paid: What this run paid.
        """
        assert self.max_cost is not None
        spent = f"{paid:.4f} of {self.max_cost:.4f} is spent"
        if self.given is not None and self.given.max_cost is not None:
            spent = f"{max(0.0, self.max_cost - paid):.4f} of the budget of {self.given.max_cost:.4f} is left"
        return f"The next call may cost {most:.4f}, and {spent}; a larger --max-cost continues."

    def check(self, model: str, price: Price | None) -> None:
        """Raise an OptionError where money is limited and the model's price is not known."""
        if self.max_cost is not None and price is None:
            raise OptionError(
                f"A limit in money needs the price of {model}, which is not known. "
                "Give it: -E price-in and -E price-out (per million tokens)."
            )
