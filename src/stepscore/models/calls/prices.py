"""The price of a model's tokens, and the most a call can cost.

The user's prices (``-E price-in``, ``-E price-out``) come first. Otherwise models of ``openai-api/`` are looked up in
genai-prices, a library of price lists that needs no network. Models in this process are free. The cost of any other
model is unknown.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from stepscore.errors import OptionError

if TYPE_CHECKING:
    from stepscore.models.calls.call import Call

BILLED_BACKENDS = ("openai-api", "mock")
"""Backends that a provider may bill by the token; ``mock`` replaces one in tests and trials."""

IN_PROCESS_BACKENDS = ("embedded", "hf", "sarm")
"""Backends that run in this process, where tokens are free."""


@dataclass(frozen=True)
class Price:
    """Price in US dollars per million input and output tokens, and where it is from.

    ``long_prompts`` holds (threshold, input, output) in ascending order: higher prices for all tokens of a call with
    more input tokens than the threshold.
    """

    tokens_in: float
    tokens_out: float
    source: str
    long_prompts: tuple[tuple[int, float, float], ...] = ()

    @property
    def free(self) -> bool:
        """Whether every call is free."""
        return not self.tokens_in and not self.tokens_out and not self.long_prompts

    def __post_init__(self) -> None:
        check_amount(self.tokens_in, "price_in (-E price-in)")
        check_amount(self.tokens_out, "price_out (-E price-out)")

    def cost(self, tokens_in: int, tokens_out: int) -> float:
        """Return the cost of a call."""
        price_in, price_out = self.tokens_in, self.tokens_out
        for threshold, long_in, long_out in self.long_prompts:
            if tokens_in > threshold:
                price_in, price_out = long_in, long_out
        return (tokens_in * price_in + tokens_out * price_out) / 1e6

    def max_cost(self, call: Call) -> float:
        """Return the most a call can cost: a byte of text is at most one token."""
        return self.cost(*call.request.token_bound())


def check_amount(value: float | None, name: str) -> None:
    """Raise OptionError for an amount that is not a finite number from 0."""
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if value is not None and not (number and 0 <= value < math.inf):
        raise OptionError(f"{name} must be a number from 0, got {value}.")


def check_prices(tokens_in: float | None, tokens_out: float | None) -> None:
    """Raise OptionError for an invalid price, and for one price without the other.

    A missing price is not 0: a limit in money would then cover only half of the tokens.
    """
    check_amount(tokens_in, "price_in (-E price-in)")
    check_amount(tokens_out, "price_out (-E price-out)")
    if (tokens_in is None) != (tokens_out is None):
        given, missing = ("in", "out") if tokens_out is None else ("out", "in")
        raise OptionError(
            f"price_{given} (-E price-{given}) needs price_{missing} too. Set both. If these tokens are free: "
            f"-E price-{missing}=0"
        )


def price_of(model: str, tokens_in: float | None = None, tokens_out: float | None = None) -> Price | None:
    """Return the price of a model: the user's, else the provider's list price, else ``None``."""
    check_prices(tokens_in, tokens_out)
    if tokens_in is not None and tokens_out is not None:
        return Price(tokens_in, tokens_out, "given by the user")
    backend, _, name = model.partition("/")
    if backend in IN_PROCESS_BACKENDS:
        return Price(0.0, 0.0, "no charge: computed in this process")
    if backend not in BILLED_BACKENDS or not name:
        return None
    provider, slash, served_name = name.partition("/")
    return _list_price(provider, served_name) if slash else _list_price("openai", name)


def _list_price(provider: str, name: str) -> Price | None:
    """Return today's list price of a provider's model; ``None`` if the library does not know it."""
    import genai_prices  # a megabyte of data, needed only for hosted models
    from genai_prices.types import TieredPrices

    now = datetime.now(UTC)
    try:
        found = genai_prices.calc_price(
            genai_prices.Usage(), name, provider_id=provider, genai_request_timestamp=now
        )
    except LookupError:
        return None
    listed = [getattr(found.model_price, field, None) for field in ("input_mtok", "output_mtok")]
    if any(price is None for price in listed):
        return None
    starts = {tier.start for price in listed if isinstance(price, TieredPrices) for tier in price.tiers}

    def at(price: object, tokens: int) -> float:
        if not isinstance(price, TieredPrices):
            return float(str(price))
        reached = [tier.price for tier in price.tiers if tier.start <= tokens]
        return float(reached[-1] if reached else price.base)

    price_in, price_out = (at(price, 0) for price in listed)
    return Price(
        price_in,
        price_out,
        f"list price of {found.provider.name} on {now:%Y-%m-%d}, genai-prices {genai_prices.__version__}",
        tuple((start, at(listed[0], start), at(listed[1], start)) for start in sorted(starts)),
    )
