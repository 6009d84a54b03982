"""What a user decides about calls: budget, prices, cache, connections and patience."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path

from stepscore.errors import OptionError
from stepscore.models.base import Model, check_model_extra
from stepscore.models.calls.budget import Budget
from stepscore.models.calls.prices import Price, check_amount, check_prices, price_of
from stepscore.models.calls.retries import PATIENCE_S, log_wait

MAX_CONNECTIONS = 4096
"""Most calls in flight at a time, and most attempts at one."""


@dataclass(frozen=True)
class CallOptions:
    """Budget, prices, cache and connections of a run's calls. None of it changes a number.

    Attributes:
        budget: The most calls and money, over all starts of the run.
        price_in: Price per million input tokens; ``None`` takes it from the price table.
        price_out: Price per million output tokens; given with ``price_in`` or not at all.
        cache: Whether answers are cached and taken from the cache.
        cache_path: The cache file; ``None`` for the user's.
        connections: Calls in flight at a time, for served models.
        timeout_s: Seconds after which a served call counts as lost.
        retries: Most attempts at one call.
        patience_s: Seconds for which a call waits at most, all its waits together, and all calls for a server that is
            away.
        on_wait: Called with a line before every long wait; by default it is logged, which shows it on stderr.
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
        for name, least in (("connections", 1), ("retries", 1)):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= MAX_CONNECTIONS:
                raise OptionError(
                    f"{name} is {value}; it must be at least {least}, at most {MAX_CONNECTIONS}."
                )
        if not 0 < self.timeout_s < math.inf:
            raise OptionError(f"timeout_s is {self.timeout_s}; it must be above 0.")

    def price(self, model: Model) -> Price | None:
        """Return the price of the model's tokens; ``None`` where not known."""
        return price_of(model.name, self.price_in, self.price_out)

    def check(self, models: Iterable[Model]) -> None:
        """Check what can be known of the models before anything is asked.

        Raises:
            MissingExtraError: A model needs an extra that is not installed.
            OptionError: Money is limited, and one of the models has no price.
        """
        for model in models:
            check_model_extra(model)
            self.budget.check(model.name, self.price(model))

    def workers(self, models: Iterable[Model]) -> int:
        """Return how many episodes are in flight by default: as many as connections if a model is served, else 1."""
        return self.connections if any(model.capabilities.served for model in models) else 1
