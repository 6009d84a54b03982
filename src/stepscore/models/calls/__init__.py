"""Calls to models: their keys, the cache, prices, budget and retries."""

from stepscore.models.calls.answer_cache import CallCache
from stepscore.models.calls.attempts import Attempts, OpenAttempts, Spent
from stepscore.models.calls.attempts_journal import AttemptsJournal
from stepscore.models.calls.call import Call, unpack
from stepscore.models.calls.kept_answers import KeptAnswers
from stepscore.models.calls.keys import call_key
from stepscore.models.calls.ledger import Budget, Ledger
from stepscore.models.calls.prefix_cache import PrefixCacheCounts, PrefixCacheUse
from stepscore.models.calls.prices import Price, check_amount, check_prices, max_request_tokens, price_of
from stepscore.models.calls.response_checks import check_response, count_of
from stepscore.models.calls.retries import PATIENCE_S, Waits, log_wait

__all__ = [
    "PATIENCE_S",
    "Attempts",
    "AttemptsJournal",
    "Budget",
    "Call",
    "CallCache",
    "KeptAnswers",
    "Ledger",
    "OpenAttempts",
    "PrefixCacheCounts",
    "PrefixCacheUse",
    "Price",
    "Spent",
    "Waits",
    "call_key",
    "check_amount",
    "check_prices",
    "check_response",
    "count_of",
    "log_wait",
    "max_request_tokens",
    "price_of",
    "unpack",
]
