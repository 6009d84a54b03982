"""Calls to models: their keys, the cache, prices, budget and retries."""

from stepscore.models.calls.answer_cache import CallCache
from stepscore.models.calls.call import Call
from stepscore.models.calls.keys import call_key
from stepscore.models.calls.ledger import Attempts, Budget, Ledger
from stepscore.models.calls.prices import Price, max_request_tokens, price_of

__all__ = [
    "Attempts",
    "Budget",
    "Call",
    "CallCache",
    "Ledger",
    "Price",
    "call_key",
    "max_request_tokens",
    "price_of",
]
