"""Calls to models: the chain that every request goes through, and the account that it keeps."""

from stepscore.models.calls.account import ATTEMPTS_DATABASE, SHARED_ANSWERS, Account, RunAccount
from stepscore.models.calls.answer_cache import CallCache
from stepscore.models.calls.attempts import Attempts, Spent
from stepscore.models.calls.batch_group import BatchGroup
from stepscore.models.calls.call import Asker, Call, Layer, usage_of
from stepscore.models.calls.chain import Ask, CallChain, opened_chain
from stepscore.models.calls.claims import CallOutcome, ClaimTable, Waiter
from stepscore.models.calls.layers.split import Split
from stepscore.models.calls.options import Budget, CallOptions
from stepscore.models.calls.prefix_cache import PrefixCacheCounts, PrefixCacheUse
from stepscore.models.calls.prices import Price, check_amount, check_prices, price_of
from stepscore.models.calls.retries import PATIENCE_S, Waits, log_wait
from stepscore.models.calls.unstored_account import UnstoredAccount

__all__ = [
    "ATTEMPTS_DATABASE",
    "PATIENCE_S",
    "SHARED_ANSWERS",
    "Account",
    "Ask",
    "Asker",
    "Attempts",
    "BatchGroup",
    "Budget",
    "Call",
    "CallCache",
    "CallChain",
    "CallOptions",
    "CallOutcome",
    "ClaimTable",
    "Layer",
    "PrefixCacheCounts",
    "PrefixCacheUse",
    "Price",
    "RunAccount",
    "Spent",
    "Split",
    "UnstoredAccount",
    "Waiter",
    "Waits",
    "check_amount",
    "check_prices",
    "log_wait",
    "opened_chain",
    "price_of",
    "usage_of",
]
