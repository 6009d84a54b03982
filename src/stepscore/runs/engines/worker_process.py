"""The process of a worker: messages come on its standard input, and go to what was its standard output."""

from __future__ import annotations

import asyncio
import os
import pickle
import sys
import threading
from collections.abc import Sequence
from contextlib import nullcontext
from typing import IO

from stepscore._local_modules import import_local_modules
from stepscore._tracebacks import TracebackPrinter, wants_tracebacks
from stepscore.errors import exits_as_errors
from stepscore.runs.messages import Unable
from stepscore.runs.worker_link import WorkerLink


def main() -> None:
    """Judge what comes on standard input until it ends."""
    incoming = os.fdopen(os.dup(0), "rb")
    outgoing = os.fdopen(os.dup(1), "wb")
    # What a judge or a library prints must not come between the messages.
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
        with exits_as_errors():
            import_local_modules(pickle.load(incoming))
            judge, views, options, at_a_time = pickle.load(incoming)
            worker = WorkerLink(judge, views, options, at_a_time, post)
    except EOFError:
        return
    except Exception as error:  # a judge is anyone's code
        post([pickle.dumps(Unable(f"{type(error).__name__}: {error}"))])
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
