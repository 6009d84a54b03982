"""The user's options about calls: budget, prices, cache, connections and patience."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path

from stepscore.errors import OptionError
from stepscore.models.base import Model, check_model_extra
from stepscore.models.calls.prices import Price, check_amount, check_prices, price_of
from stepscore.models.calls.retries import PATIENCE_S, log_wait

MAX_CONNECTIONS = 4096
"""Most calls in flight at a time, and most attempts at one."""


@dataclass(frozen=True)
class Budget:
    """The most calls and money that all starts of a run may use together; ``None`` for no limit.

    ``given`` is the user's budget if this one is what earlier runs left of it. Messages name both.
    """

    max_calls: int | None = None
    max_cost: float | None = None
    given: Budget | None = field(default=None, compare=False)

    def __post_init__(self) -> None:
        calls = self.max_calls
        if calls is not None and (isinstance(calls, bool) or not isinstance(calls, int) or calls < 0):
            raise OptionError(f"max_calls (--max-calls) must be an integer from 0, got {calls}.")
        check_amount(self.max_cost, "max_cost (--max-cost)")

    def spent_calls(self) -> str:
        """Return the message that all calls were made."""
        given = self.given or self
        left = "" if given.max_calls == self.max_calls else f" ({self.max_calls} were left for this run)"
        return f"The budget of {given.max_calls} calls is spent{left}. Continue with a larger --max-calls."

    def spent_cost(self, most: float, paid: float) -> str:
        """Return the message that the next call may cost ``most``, more than is left after ``paid``."""
        assert self.max_cost is not None
        spent = f"{paid:.4f} of {self.max_cost:.4f} is spent"
        if self.given is not None and self.given.max_cost is not None:
            spent = f"{max(0.0, self.max_cost - paid):.4f} of the budget of {self.given.max_cost:.4f} is left"
        return f"The next call may cost {most:.4f}, and {spent}. Continue with a larger --max-cost."

    def check(self, model: str, price: Price | None) -> None:
        """Raise OptionError if money is limited and the model's price is unknown."""
        if self.max_cost is not None and price is None:
            raise OptionError(
                f"--max-cost needs a price for {model}, and none is known. "
                "Set -E price-in and -E price-out (per million tokens)."
            )


@dataclass(frozen=True)
class CallOptions:
    """Budget, prices, cache and connections of a run's calls. None of it changes a number.

    Attributes:
        budget: Limits over all starts of the run.
        price_in: Price per million input tokens; ``None`` takes it from the price table.
        price_out: Price per million output tokens; set both prices or neither.
        cache: Whether answers are cached and taken from the cache.
        cache_path: The cache file; ``None`` for the user's.
        connections: Concurrent calls to served models.
        timeout_s: Seconds after which a served call counts as lost.
        retries: Most attempts at one call.
        patience_s: Most seconds that one call waits in all, and that all calls wait for a server that is down.
        on_wait: Called with a message before every long wait; logs it to stderr by default.
    """

    budget: Budget = field(default_factory=Budget)
    price_in: float | None = None
    price_out: float | None = None
    cache: bool = True
    cache_path: Path | None = None
    connections: int = 8
    timeout_s: float = 300.0
    retries: int = 6
    patience_s: float = PATIENCE_S
    on_wait: Callable[[str], None] = log_wait

    def __post_init__(self) -> None:
        check_prices(self.price_in, self.price_out)
        check_amount(self.patience_s, "patience_s (-E patience)")
        for name in ("connections", "retries"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= MAX_CONNECTIONS:
                raise OptionError(f"{name} must be an integer from 1 to {MAX_CONNECTIONS}, got {value}.")
        if not 0 < self.timeout_s < math.inf:
            raise OptionError(f"timeout_s must be above 0, got {self.timeout_s}.")

    def price(self, model: Model) -> Price | None:
        """Return the price of the model's tokens; ``None`` if unknown."""
        return price_of(model.name, self.price_in, self.price_out)

    def check(self, models: Iterable[Model]) -> None:
        """Check the models before anything is asked.

        Raises:
            MissingExtraError: A model needs an extra that is not installed.
            OptionError: Money is limited, and one of the models has no price.
        """
        for model in models:
            check_model_extra(model)
            self.budget.check(model.name, self.price(model))

    def workers(self, models: Iterable[Model]) -> int:
        """Return the default number of episodes in flight: ``connections`` for a served model, else 1."""
        return self.connections if any(model.capabilities.served for model in models) else 1
