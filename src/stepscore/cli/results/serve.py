"""``stepscore serve``: a judge as a reward server."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from stepscore.cli import options
from stepscore.cli.config import options_of
from stepscore.cli.numbers import between
from stepscore.cli.options import KeyGroup
from stepscore.cli.outputs import new_folder
from stepscore.cli.tables import err
from stepscore.errors import OptionError

if TYPE_CHECKING:
    from stepscore.judges import Judge

LOOPBACK = "127.0.0.1"


@dataclass(frozen=True)
class ServerKeys:
    """Where the server listens, and how it answers.

    Attributes:
        host: Address to bind. Off loopback it needs --token-file.
    """

    host: str = LOOPBACK


IN_PYTHON = (
    *("memory_mb", "frames", "pixels", "samples", "waiting"),
    *("sessions", "idle_s", "read_s", "answer_s", "stop_s"),
)
"""Limits that few change; :class:`stepscore.server.Limits` has them."""
GROUP = KeyGroup(
    "-S",
    "server",
    of=("stepscore.cli.results.serve:ServerKeys", "stepscore.server:Limits"),
    leave_out=IN_PYTHON,
)


@options.with_groups
def serve(
    context: typer.Context,
    name: Annotated[
        str,
        typer.Option("--judge", metavar="JUDGE", help="Judge, see `stepscore ls judges`."),
    ],
    *,
    judge_flags: options.JudgeFlags,
    port: Annotated[
        int,
        typer.Option("--port", callback=between(0, 65535), metavar="N", help="Port. 0 chooses a free one."),
    ] = 8000,
    token_file: Annotated[
        Path | None,
        typer.Option("--token-file", metavar="FILE", help="File with the token that clients must send."),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out", "-o", callback=new_folder, metavar="RUN", help="Run folder to record every score in."
        ),
    ] = None,
    validation: options.ValidationFile = None,
    server: Annotated[dict[str, Any], GROUP],
) -> None:
    """Serve a judge's progress and success to RL code.

    Answers Robometer's requests, OpenAI chat completions as RLinf sends them, and live sessions.
    """
    from stepscore.judges import TopReward, prepare
    from stepscore.server import Limits, Scorer, is_loopback, make_reward_app, read_token, serve_rewards

    keys = ServerKeys(server.pop("host", LOOPBACK))
    token = None if token_file is None else read_token(token_file)
    loopback = is_loopback(keys.host)
    if token is None and not loopback:
        raise OptionError(
            f"-S host={keys.host} can be reached by other machines, so a token is required: --token-file FILE"
        )
    judge = _open(name, judge_flags)
    prepare(judge)
    if isinstance(judge, TopReward):
        judge.warm_up()
    record = None if validation is None else _validation(validation)
    scorer = Scorer(judge, Limits(**server), out, options_of(context))
    app = make_reward_app(scorer, token=token, loopback=loopback, validation=record)

    def ready(url: str) -> None:
        typer.echo(url)
        reach = "Only this machine can reach it." if loopback else "Clients must send the token."
        err().print(f"{reach} Protocol {scorer.protocol.hash}. Press Ctrl+C to stop.")
        if not scorer.is_calibrated:
            err().print("Warning: progress is uncalibrated.", style="yellow")

    serve_rewards(app, scorer, keys.host, port, ready)
    if out is not None:
        err().print(f"Wrote {out}", soft_wrap=True, markup=False)


def _open(name: str, flags: options.JudgeFlags) -> Judge:
    """Return the judge; topreward samples causally, as live sessions do, unless -J sampling is given."""
    from stepscore.judges import get_judge

    name, given = flags.read(name)
    if name == "topreward":
        given = {"sampling": "causal", **given}
    return get_judge(name, **given)


def _validation(file: Path) -> dict[str, Any]:
    from dataclasses import asdict

    from stepscore.analysis import read_validation

    return asdict(read_validation(file))
