"""Calls to models: the chain that every request goes through, and the account that it keeps."""

from stepscore.models.calls.account import ATTEMPTS_DATABASE, KEPT_ANSWERS, Account, RunAccount
from stepscore.models.calls.answer_cache import CallCache
from stepscore.models.calls.attempts import Attempts, OpenAttempts, Spent
from stepscore.models.calls.attempts_journal import AttemptsJournal
from stepscore.models.calls.batch_group import BatchGroup
from stepscore.models.calls.budget import Budget
from stepscore.models.calls.call import Call, Layer, usage_of
from stepscore.models.calls.chain import Ask, CallChain, opened_chain
from stepscore.models.calls.claim_table import ClaimTable, Outcome, Waiter
from stepscore.models.calls.kept_answers import KeptAnswers
from stepscore.models.calls.keys import call_key
from stepscore.models.calls.options import CallOptions
from stepscore.models.calls.prefix_cache import PrefixCacheCounts, PrefixCacheUse
from stepscore.models.calls.prices import Price, check_amount, check_prices, price_of
from stepscore.models.calls.retries import PATIENCE_S, Waits, log_wait

__all__ = [
    "ATTEMPTS_DATABASE",
    "KEPT_ANSWERS",
    "PATIENCE_S",
    "Account",
    "Ask",
    "Attempts",
    "AttemptsJournal",
    "BatchGroup",
    "Budget",
    "Call",
    "CallCache",
    "CallChain",
    "CallOptions",
    "ClaimTable",
    "KeptAnswers",
    "Layer",
    "OpenAttempts",
    "Outcome",
    "PrefixCacheCounts",
    "PrefixCacheUse",
    "Price",
    "RunAccount",
    "Spent",
    "Waiter",
    "Waits",
    "call_key",
    "check_amount",
    "check_prices",
    "log_wait",
    "opened_chain",
    "price_of",
    "usage_of",
]
