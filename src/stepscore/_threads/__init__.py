"""Threads that wait for other machines, and stop waiting when nobody wants the answer any more."""

from stepscore._threads.pools import Threads, is_shut_down

__all__ = ["Threads", "is_shut_down"]
