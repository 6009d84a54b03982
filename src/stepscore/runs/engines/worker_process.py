"""The process of a worker: messages come from its standard input, and go to its original standard output."""

from __future__ import annotations

import asyncio
import os
import pickle
import sys
import threading
from collections.abc import Sequence
from contextlib import nullcontext
from typing import IO

from stepscore._tracebacks import TracebackPrinter, wants_tracebacks
from stepscore.runs.remote_worker import load_worker


def main() -> None:
    """Work for the owner on standard input until it ends."""
    incoming = os.fdopen(os.dup(0), "rb")
    outgoing = os.fdopen(os.dup(1), "wb")
    # The prints of a judge or a library go to stderr, so that they do not corrupt the messages.
    os.dup2(2, 1)
    with open(os.devnull, "rb") as nothing:
        os.dup2(nothing.fileno(), 0)
    with TracebackPrinter() if wants_tracebacks() else nullcontext():
        asyncio.run(_work(incoming, outgoing))


async def _work(incoming: IO[bytes], outgoing: IO[bytes]) -> None:
    lock = threading.Lock()

    def post(messages: Sequence[bytes]) -> None:
        with lock:
            outgoing.write(b"".join(messages))
            outgoing.flush()

    try:
        packed = pickle.load(incoming)
    except EOFError:  # the owner ended at once
        return
    if (worker := load_worker(packed, post)) is None:
        return
    loop = asyncio.get_running_loop()

    def read() -> None:
        while True:
            try:
                message = pickle.load(incoming)
            except (Exception, SystemExit):  # the owner has ended
                os._exit(0)
            loop.call_soon_threadsafe(worker.deliver, message)

    threading.Thread(target=read, name="stepscore-owner", daemon=True).start()
    worker.start()
    sys.stdout.flush()
    await asyncio.Event().wait()  # until the reading thread ends this process
