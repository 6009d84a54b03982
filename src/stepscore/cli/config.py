"""``--config FILE``: a command's options from a YAML file, or from the ``run.json`` of a run.

The file is untrusted, so URLs that receive a key, code, and output paths count only on the command line.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperCommand
from typer.main import get_command

from stepscore._untrusted import parse_json, parse_yaml, read_text, shown
from stepscore.errors import OptionError, UnknownNameError

MAX_YAML_BYTES = 1 << 20
MAX_JSON_BYTES = 1 << 24
"""Longest file that is read; the protocol in a ``run.json`` may hold a calibration map."""
CONFIG = "config_file"
NEVER_IN_A_FILE = ("out", "force", "static", "plot", "entries")
"""Options that name where the command writes, or a file that may name a server."""
SECRETS = re.compile(r"key|token|secret|password|header|credential|cookie", re.IGNORECASE)
_SERVERS = re.compile(r"url|server|host|address|endpoint|proxy|remote_?code", re.IGNORECASE)
_USER = re.compile(r"//[^/\s]*@")
"""User and password in a URL."""
_CODE = re.compile(r"\.py(:|$)")
_OWNER = {"judge_options": "name", "model_options": "model", "weighting": "method"}
"""Groups whose keys belong to another option: if the command line names another judge, the file's -J are dropped."""


class ConfiguredCommand(TyperCommand):
    """A command that takes ``--config FILE``; the command line overrides the file."""

    def __init__(self, name: str | None, **settings: Any) -> None:
        super().__init__(name, **settings)
        self.params.append(_config_option())

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Read the command line, after the options of the file."""
        if not ctx.resilient_parsing and any(word.startswith("--config") for word in args):
            given, _, _ = self.make_parser(ctx).parse_args(args=list(args))
            if given.get(CONFIG) is not None and not given.get("help"):
                pairs, ctx.default_map = _read(Path(given[CONFIG]), ctx, given)
                args = [*pairs, *args]
        return super().parse_args(ctx, args)


def options_of(context: typer.Context) -> dict[str, Any]:
    """Return the command and the options it was given, without secrets and outputs, as ``run.json`` keeps them."""
    options: dict[str, Any] = {}
    for param in context.command.params:
        source = context.get_parameter_source(str(param.name))
        if source is None or source.name == "DEFAULT" or param.name in (CONFIG, "dry_run", *NEVER_IN_A_FILE):
            continue
        value = context.params.get(str(param.name))
        if value is None or value == []:
            continue
        if _is_group(param):
            stated = {key: text for key, _, text in (pair.partition("=") for pair in value)}
            kept = {key: text for key, text in stated.items() if not SECRETS.search(key)}
            options[_key(param)] = {key: _USER.sub("//", text) for key, text in kept.items()}
        else:
            options[_key(param)] = _plain(value)
    return {"name": " ".join(context.command_path.split()[1:]), "options": options}


def _plain(value: object) -> object:
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    return value if isinstance(value, bool | int | float) else str(value)


@lru_cache(maxsize=1)
def _config_option() -> Any:
    def declare(
        config_file: Annotated[
            Path | None,
            typer.Option(
                "--config",
                metavar="FILE",
                expose_value=False,
                help="Read options from a YAML file or a run.json. Flags override it.",
            ),
        ] = None,
    ) -> None: ...

    alone = typer.Typer(add_completion=False)
    alone.command()(declare)
    return get_command(alone).params[0]


def _read(path: Path, context: Any, given: Mapping[str, Any]) -> tuple[list[str], dict[str, Any]]:
    """Return a file's ``-J KEY=VALUE`` pairs as words, and its other options; ``given`` takes precedence."""
    params = {_key(param): param for param in context.command.params if param.name not in (CONFIG, "help")}
    words: list[str] = []
    values: dict[str, Any] = {}
    for key, value in _options_in(path, context).items():
        param = params.get(key.replace("_", "-") if len(key) > 1 else key)
        if param is None:
            valid = [name for name, each in params.items() if each.name not in NEVER_IN_A_FILE]
            raise UnknownNameError(f"option of {context.command_path}", key, valid, where=shown(path))
        stated = given.get(param.name)
        if value is None or (not _is_group(param) and stated not in (None, (), [])):
            continue
        where = f"{shown(path)}: {key}"
        if param.name in NEVER_IN_A_FILE:
            raise OptionError(f"{where} counts only on the command line: {param.opts[0]}")
        if not _is_group(param):
            values[str(param.name)] = _value(param, value, where)
        elif given.get(_OWNER.get(str(param.name), "")) is None:
            words += _pairs(param, value, where)
    _refuse_unsafe({**values, **_grouped(words)}, given, shown(path))
    return words, values


def _options_in(path: Path, context: Any) -> dict[str, Any]:
    """Return the options in a file: all of a YAML file, those of the command in a ``run.json``."""
    if path.suffix == ".json":
        content = parse_json(read_text(path, OptionError, max_bytes=MAX_JSON_BYTES), shown(path), OptionError)
    else:
        content = parse_yaml(read_text(path, OptionError, max_bytes=MAX_YAML_BYTES), shown(path), OptionError)
    if isinstance(content, dict) and "protocol" in content:
        command = content.get("command")
        if not isinstance(command, dict) or not isinstance(command.get("options"), dict):
            raise OptionError(f"{shown(path)} keeps no options: the run was not made by a command.")
        called = " ".join(context.command_path.split()[1:])
        if command.get("name") != called:
            made_by = shown(str(command.get("name")))
            raise OptionError(
                f"{shown(path)} keeps the options of stepscore {made_by}, not of stepscore {called}."
            )
        content = command["options"]
    if not isinstance(content, dict) or not all(isinstance(key, str) for key in content):
        raise OptionError(f"{shown(path)} must be a mapping of options to values, such as: judge: topreward")
    return content


def _key(param: Any) -> str:
    """Return the name of an option in a file: its long flag, or its letter; an argument's own name."""
    flags = [flag for flag in param.opts if flag.startswith("-")]
    long = [flag for flag in flags if flag.startswith("--")]
    name: str = (long or flags or [str(param.name).replace("_", "-")])[0]
    return name.lstrip("-")


def _is_group(param: Any) -> bool:
    return bool(param.metavar == "KEY=VALUE")


def _value(param: Any, value: object, where: str) -> object:
    """Return a value as the parser takes it from a command line."""
    parts = value if isinstance(value, list) else [value]
    if isinstance(value, dict) or not all(isinstance(part, str | int | float) for part in parts):
        raise OptionError(f"{where} must be a text, a number, true, false or a list of them.")
    if getattr(param, "is_flag", False):
        if not isinstance(value, bool):
            raise OptionError(f"{where} must be true or false, got {shown(str(value))[:60]}.")
        return value
    texts = [_text(part) for part in parts]
    return texts if getattr(param, "multiple", False) or param.nargs == -1 else ",".join(texts)


def _pairs(param: Any, value: object, where: str) -> Iterator[str]:
    if not isinstance(value, dict) or not all(isinstance(key, str) for key in value):
        raise OptionError(f"{where} must be a mapping of keys to values, such as {{workers: 4}}.")
    for key, part in value.items():
        yield param.opts[0]
        yield f"{key}={_text(part)}"


def _text(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def _grouped(words: list[str]) -> dict[str, list[str]]:
    """Return the pairs by their flag."""
    found: dict[str, list[str]] = {}
    for flag, pair in zip(words[::2], words[1::2], strict=True):
        found.setdefault(flag, []).append(pair)
    return found


def _refuse_unsafe(stated: Mapping[str, Any], given: Mapping[str, Any], where: str) -> None:
    """Refuse what only the command line may set: code to run, and where a key or a recording is sent."""
    for name, value in stated.items():
        texts = value if isinstance(value, list) else [value]
        for text in (each for each in texts if isinstance(each, str)):
            if name not in ("source", "runs", "run", "datasets", "subject") and _CODE.search(text):
                raise OptionError(
                    f"{where} names code to run ({shown(text)}), which counts only on the command line."
                )
    model = given.get("model") or stated.get("model")
    judge = given.get("name") or stated.get("name")
    for flag in ("-E", "-T"):
        for pair in stated.get(flag, ()):
            _check_key(pair, None, f"{where}: {flag}", flag=flag)
    for pair in stated.get("-M", ()):
        _check_key(pair, _factory("models", str(model).partition("/")[0]), f"{where}: -M", flag="-M")
    for pair in stated.get("-J", ()):
        _check_key(pair, _factory("judges", str(judge)), f"{where}: -J", flag="-J")
    for name in ("judges", "models"):
        for entry in stated.get(name, ()):
            from stepscore.audit.board import split_entry

            for text in str(entry).split(","):
                called, pairs = split_entry(text)
                for pair in pairs:
                    _check_key(
                        pair, _factory(name, called.partition("/")[0]), f"{where}: {name}", flag=f"--{name}"
                    )


def _factory(kind: str, name: str) -> Callable[..., object] | None:
    """Return the factory of a judge or a model; ``None`` for an unknown name, which is reported later."""
    from stepscore.judges import judge_registry
    from stepscore.models import model_registry

    registry: Any = judge_registry if kind == "judges" else model_registry
    return registry.get(name) if name in registry.names() else None


def _check_key(pair: str, make: Callable[..., object] | None, where: str, *, flag: str) -> None:
    from stepscore.registry import declared_options

    key, _, value = pair.partition("=")
    name = key.replace("-", "_")
    declared = (
        declared_options(make)[name].what if make is not None and name in declared_options(make) else None
    )
    named = SECRETS.search(name) or _SERVERS.search(name)
    is_known_text = declared in ("text", "path", "model", "judge")
    if declared in ("server", "code") or (not is_known_text and (named or "://" in value)):
        raise OptionError(f"{where} {shown(key)} counts only on the command line: {flag} {shown(key)}=VALUE")
