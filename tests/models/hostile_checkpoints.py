"""Damaged and hostile checkpoints, made on the spot by a seed.

``variants(seed)`` yields a name and a function that makes the checkpoint in an empty folder: first every written
fault in an order drawn by the seed, then random byte flips, cuts and replaced fields without end. ``exercise``
does with it what a run does. It may return a response (a flipped bit of a weight is a weight) or raise a
``StepScoreError``; anything else is a fault of the product.

As a script: ``python -m tests.models.hostile_checkpoints [TRIES] [SEED]``.
"""

from __future__ import annotations

import io
import itertools
import json
import os
import random
import struct
import zipfile
from collections.abc import Callable, Iterator
from functools import cache, partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

Make = Callable[[Path], None]
Change = Callable[[Path], object]

HEADERS = {
    "hf": "model.safetensors", "sarm": "sarm.safetensors", "embedded": "gate.safetensors",
    "robometer": "model.safetensors",
}  # fmt: skip
"""The safetensors file of each kind that is damaged; the name before the colon of a variant is its kind."""
TEXTS = {
    "hf": ("config.json", "preprocessor_config.json", "tokenizer.json", "tokenizer_config.json",
           "generation_config.json", "chat_template.jinja"),
    "sarm": ("sarm.json",),
    "embedded": ("config.json",),
    "robometer": ("config.json", "config.yaml", "tokenizer.json"),
}  # fmt: skip
ODD_VALUES: tuple[Any, ...] = (
    None, True, -1, 0, 1, 3, 10**9, 10**12, 2**63 - 1, 10**30, 1e308, 0.5, "", "9", "../..", [], [1], {}, {"a": 1},
)  # fmt: skip


@cache
def base(kind: str) -> dict[str, bytes]:
    """Return the files of a sound checkpoint."""
    from tests.models import tiny
    from tests.models.robometer import tiny_robometer
    from tests.models.sarm import tiny_sarm

    with TemporaryDirectory() as made:
        folder = Path(made)
        if kind == "sarm":
            tiny_sarm.checkpoint(folder, f"hf/{tiny_sarm.clip_folder(_clip_folder())}")
        elif kind == "robometer":
            tiny_robometer.save(folder)
        else:
            tokens = tiny.tokenizer()
            tiny.save(folder, tiny.qwen3vl(tokens), tokens)
            scaling = {"image_mean": [0.5, 0.5, 0.5], "image_std": [0.5, 0.5, 0.5]}
            (folder / "preprocessor_config.json").write_text(json.dumps(scaling))
            if kind == "embedded":
                _save_gate(folder)
        return {path.name: path.read_bytes() for path in folder.iterdir()}


@cache
def _clip_folder() -> Path:
    kept = TemporaryDirectory()
    _kept.append(kept)
    return Path(kept.name)


_kept: list[TemporaryDirectory[str]] = []


def _save_gate(folder: Path) -> None:
    import numpy as np

    from stepscore.models.embedded.ood import DomainGate, save_gate

    rng = np.random.default_rng(0)
    # 64 pixels a side: two by two tokens of 64 features and two deepstack layers of as many.
    width, k, tokens, hidden, scenes = 192, 3, 4, 5, 2

    def draw(*shape: int) -> Any:
        return rng.normal(size=shape).astype(np.float32)

    bank = draw(6, hidden)
    gate = DomainGate(
        draw(width), draw(width, k), draw(tokens * k), np.ones(tokens * k, np.float32), draw(tokens * k, hidden),
        draw(hidden), draw(hidden, scenes + 1), draw(scenes + 1), bank, np.arange(6) % scenes,
        np.full(scenes, -50.0), words={"drawer": [0], "door": [1]},
    )  # fmt: skip
    save_gate(gate, folder / HEADERS["embedded"])


def write(kind: str, folder: Path) -> Path:
    """Write the sound checkpoint of a kind."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in base(kind).items():
        (folder / name).write_bytes(content)
    return folder


def variants(seed: int, kinds: tuple[str, ...] = tuple(HEADERS)) -> Iterator[tuple[str, Make]]:
    """Yield names and makers of hostile checkpoints, without end; the same ones for the same seed."""
    rng = random.Random(seed)
    fixed = [(f"{kind}:{name}", _maker(kind, change)) for kind in kinds for name, change in written(kind)]
    rng.shuffle(fixed)
    yield from fixed
    for number in itertools.count():
        kind = rng.choice(kinds)
        name, change = drawn(kind, random.Random(f"{seed} {number}"))
        yield f"{kind}:drawn {number} {name}", _maker(kind, change)


def _maker(kind: str, change: Change) -> Make:
    def make(folder: Path) -> None:
        write(kind, folder)
        change(folder)

    return make


def exercise(name: str, folder: Path) -> object:
    """Use a checkpoint as a run does: describe it, load it, send it a request; return the response."""
    from stepscore.models import DecodedMedia, Generate, PredictStages, Prompt, ScorePrefixes, Turn, get_model
    from tests.models import tiny

    kind = name.split(":")[0]
    clip = DecodedMedia(tiny.clip(2), True)
    if kind == "sarm":
        from stepscore.models.blocking import run_blocking

        model: Any = get_model(f"sarm/{folder}")
        model.describe()
        return run_blocking(model.answer(PredictStages((clip,), "open the drawer", "open the drawer")))
    if kind == "robometer":
        from stepscore.models import PredictProgress, run_blocking

        model = get_model(f"hf/{folder}")
        model.describe()
        return run_blocking(model.answer(PredictProgress(Prompt((Turn("user", ("How far?", clip)),)))))
    model = get_model("embedded", checkpoint=str(folder)) if kind == "embedded" else get_model(f"hf/{folder}")
    model.describe()
    assert model.capabilities.videos
    scored = model.score_prefixes(ScorePrefixes(clip, (1, 2), tiny.statements(), tiny.CANDIDATES))
    prompt = Prompt((Turn("user", ("Is the drawer open?", DecodedMedia(tiny.clip(1)))),))
    return scored, model.generate(Generate(prompt, max_tokens=2))


def written(kind: str) -> list[tuple[str, Change]]:
    """Return the written faults of a kind of checkpoint, by name."""
    faults: list[tuple[str, Change]] = []
    for name in (*TEXTS[kind], HEADERS[kind]):
        faults += _file_faults(name)
    faults += [
        (f"{name} {fault}", _replaced(name, text)) for name in TEXTS[kind] for fault, text in TEXT_FAULTS
    ]
    faults += [(f"header {fault}", _header(HEADERS[kind], change)) for fault, change in HEADER_FAULTS]
    faults += [
        (f"{HEADERS[kind]} {fault}", _replaced(HEADERS[kind], content)) for fault, content in RAW_FAULTS
    ]
    extra = {"hf": _hf_faults, "sarm": _sarm_faults, "embedded": _embedded_faults}
    return faults + (extra[kind]() if kind in extra else [])


TEXT_FAULTS: tuple[tuple[str, bytes], ...] = (
    ("is empty", b""),
    ("is garbage", bytes(range(256)) * 8),
    ("is not JSON", b'{"model_type": '),
    ("is a list", b"[1, 2]"),
    ("is null", b"null"),
    ("is an empty object", b"{}"),
    ("is nested deep", b'{"a":' * 5000 + b"1" + b"}" * 5000),
    ("is nested too deep for any parser", b"[" * 200_000),
    ("has a long integer", b'{"hidden_size": ' + b"9" * 5000 + b"}"),
    ("is in UTF-16", '{"model_type": "qwen3_vl"}'.encode("utf-16")),
    ("has NUL bytes", b"\0" * 4096),
)
RAW_FAULTS: tuple[tuple[str, bytes], ...] = (
    ("has zero bytes", b""),
    ("has seven bytes", b"1234567"),
    ("is zeros", b"\0" * 4096),
    ("has a header of 2**63 bytes", struct.pack("<Q", 2**63) + b"{}"),
    ("has a header of 2**64-1 bytes", struct.pack("<Q", 2**64 - 1) + b"{}"),
    ("has a header of 90 MB that is not there", struct.pack("<Q", 90_000_000) + b"{}"),
    ("has a deep header", struct.pack("<Q", 200_000) + b"[" * 200_000),
    ("has a header that is a list", struct.pack("<Q", 2) + b"[]"),
    ("has a header that is not UTF-8", struct.pack("<Q", 4) + b"\xff\xfe\xff\xfe"),
    ("is a pickle", b"\x80\x04cos\nsystem\n(S'touch pwned'\ntR."),
)


def _first(header: dict[str, Any]) -> dict[str, Any]:
    entry: dict[str, Any] = header[next(name for name in header if name != "__metadata__")]
    return entry


def _set(field: str, value: object) -> Callable[[dict[str, Any]], None]:
    return lambda header: _first(header).update({field: value})


HEADER_FAULTS: tuple[tuple[str, Callable[[dict[str, Any]], object]], ...] = (
    ("with offsets outside", _set("data_offsets", [0, 10**15])),
    ("with negative offsets", _set("data_offsets", [-8, 0])),
    ("with offsets reversed", _set("data_offsets", [8, 0])),
    ("with offsets of text", _set("data_offsets", ["0", "8"])),
    ("with one offset", _set("data_offsets", [0])),
    ("with a huge shape", _set("shape", [10**12, 10**12])),
    ("with a negative shape", _set("shape", [-1, -1])),
    ("with another shape", _set("shape", [1])),
    ("with a shape of text", _set("shape", "wide")),
    ("with a shape of 10,000 dimensions", _set("shape", [1] * 10_000)),
    ("with an odd dtype", _set("dtype", "Q8_0")),
    ("with a dtype of bits", _set("dtype", "F4")),
    ("with no dtype", lambda header: _first(header).pop("dtype")),
    ("with an entry of text", lambda header: header.update({"x": "y"})),
    ("with a tensor missing", lambda header: header.pop(next(n for n in header if n != "__metadata__"))),
    ("with tensors overlapping", lambda header: header.update({"x": dict(_first(header))})),
    ("with nothing in it", lambda header: header.clear()),
    ("with metadata of numbers", lambda header: header.update({"__metadata__": {"format": 1}})),
    ("with metadata of another library", lambda header: header.update({"__metadata__": {"format": "tf"}})),
    ("with many entries", lambda header: header.update({f"t{i}": dict(_first(header)) for i in range(3000)})),
)


def split(content: bytes) -> tuple[dict[str, Any], bytes]:
    """Return header and data of a safetensors file."""
    (length,) = struct.unpack("<Q", content[:8])
    return json.loads(content[8 : 8 + length]), content[8 + length :]


def joined(header: object, data: bytes) -> bytes:
    """Return a safetensors file of any header."""
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + data


def _header(name: str, change: Callable[[dict[str, Any]], object]) -> Change:
    def damage(folder: Path) -> None:
        header, data = split((folder / name).read_bytes())
        change(header)
        (folder / name).write_bytes(joined(header, data))

    return damage


def _replaced(name: str, content: bytes) -> Change:
    return lambda folder: (folder / name).write_bytes(content)


def _file_faults(name: str) -> list[tuple[str, Change]]:
    def removed(folder: Path) -> None:
        (folder / name).unlink()

    def halved(folder: Path) -> None:
        os.truncate(folder / name, (folder / name).stat().st_size // 2)

    def put(make: Change) -> Change:
        def change(folder: Path) -> None:
            removed(folder)
            make(folder)

        return change

    def linked(folder: Path) -> None:
        outside = folder.parent / f"{folder.name}-outside"
        outside.write_bytes((folder / name).read_bytes())
        removed(folder)
        (folder / name).symlink_to(outside)

    return [
        (f"{name} is missing", removed),
        (f"{name} is cut", halved),
        (f"{name} is a folder", put(lambda folder: (folder / name).mkdir())),
        (f"{name} is a named pipe", put(lambda folder: os.mkfifo(folder / name))),
        (f"{name} is a device", put(lambda folder: (folder / name).symlink_to("/dev/zero"))),
        (f"{name} links to itself", put(lambda folder: (folder / name).symlink_to(name))),
        (f"{name} links to a file outside", linked),
    ]


def field(name: str, path: str, value: object) -> Change:
    """Return a change of one field, by its path with dots, of a JSON file."""

    def change(folder: Path) -> None:
        content: Any = json.loads((folder / name).read_bytes())
        *outer, last = path.split(".")
        at = content
        for part in outer:
            at = at.setdefault(part, {})
        at[last] = value
        (folder / name).write_text(json.dumps(content))

    return change


SIZES = (
    "text_config.hidden_size", "text_config.num_hidden_layers", "text_config.vocab_size",
    "text_config.intermediate_size", "text_config.num_attention_heads", "text_config.num_key_value_heads",
    "text_config.head_dim", "text_config.max_position_embeddings", "vision_config.depth",
    "vision_config.hidden_size", "vision_config.patch_size", "vision_config.num_heads",
    "vision_config.spatial_merge_size", "vision_config.temporal_patch_size", "vision_config.in_channels",
    "vision_config.num_position_embeddings", "vision_config.out_hidden_size", "image_token_id",
)  # fmt: skip
SIZE_VALUES = (10**12, 10**9, 0, -1, "64", None, [64], 64.5)
BOMBS = {
    "loops without end": "{% for a in range(99999) %}{% for b in range(99999) %}{% for c in range(99999) %}x"
    "{% endfor %}{% endfor %}{% endfor %}",
    "multiplies a text": "{{ 'a' * 10**10 }}",
    "doubles a text": "{% set n = namespace(t='aaaaaaaa') %}{% for i in range(60) %}{% set n.t = n.t + n.t %}"
    "{% endfor %}{{ n.t }}",
    "pads a text": "{{ '%10000000000s' % 'a' }}",
    "calls itself": "{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}",
    "has a huge power": "{{ 9 ** 9 ** 9 ** 9 }}",
    "reaches for classes": "{{ ''.__class__.__mro__[1].__subclasses__() }}",
    "is no template": "{% for %}",
    "raises": "{{ raise_exception('no') }}",
}
"""Chat templates: programs of the checkpoint."""


def _hf_faults() -> list[tuple[str, Change]]:
    faults: list[tuple[str, Change]] = [
        (f"config {path} is {value!r}", field("config.json", path, value))
        for path in SIZES
        for value in SIZE_VALUES
    ]
    for path, value in [
        ("model_type", "no_such_family"), ("model_type", 7), ("model_type", "../../x"), ("text_config", 1),
        ("vision_config", "x"), ("vision_config.deepstack_visual_indexes", [10**9]),
        ("vision_config.deepstack_visual_indexes", list(range(5000))),
        ("text_config.rope_parameters.mrope_section", [10**9, 1, 1]), ("text_config.rope_parameters", 3),
        ("text_config.layer_types", ["x"] * 100_000), ("auto_map", {"AutoConfig": "evil--x.Evil"}),
        ("attn_implementation", "stranger/kernel"), ("text_config._attn_implementation", "stranger/kernel"),
        ("quantization_config", {"quant_method": "gptq", "bits": 4}), ("dtype", "float99"), ("dtype", "int8"),
        ("architectures", ["os.system"]), ("tie_word_embeddings", False), ("text_config.hidden_act", "no_such"),
        ("text_config.rms_norm_eps", "x"), ("num_labels", 10**9), ("id2label", {"a": "b"}),
    ]:  # fmt: skip
        faults.append((f"config {path} is {str(value)[:40]!r}", field("config.json", path, value)))
    for path, value in [
        ("image_mean", [0.5]), ("image_mean", "x"), ("image_std", [0, 0, 0]), ("image_std", [None] * 3),
        ("min_pixels", 10**12), ("max_pixels", -5), ("size", {"shortest_edge": 10**11}), ("size", 3),
        ("max_pixels", "many"),
    ]:  # fmt: skip
        faults.append((f"preprocessor {path} is {value!r}", field("preprocessor_config.json", path, value)))
    for path, value in [
        ("num_beams", 10**9), ("eos_token_id", "x"), ("eos_token_id", [10**12]), ("max_length", -1),
        ("num_return_sequences", 10**9), ("repetition_penalty", 0), ("cache_implementation", "no_such"),
    ]:  # fmt: skip
        faults.append((f"generation {path} is {value!r}", field("generation_config.json", path, value)))
    faults += [
        (f"chat template {name}", _replaced("chat_template.jinja", text.encode()))
        for name, text in BOMBS.items()
    ]
    faults += [(f"index {name}", _index(value)) for name, value in INDEXES]
    faults += [
        ("has pickles alone", _only_pickles),
        (
            "is an adapter",
            field_of_new("adapter_config.json", {"base_model_name_or_path": "/", "peft_type": "LORA"}),
        ),
        ("has weights of NaN", _not_numbers),
        ("is a folder without files", lambda folder: [path.unlink() for path in folder.iterdir()]),
    ]
    return faults


def field_of_new(name: str, content: object) -> Change:
    """Return a change that adds a JSON file."""
    return lambda folder: (folder / name).write_text(json.dumps(content))


INDEXES: tuple[tuple[str, object], ...] = (
    ("is a list", []),
    ("has no map", {}),
    ("has a map of text", {"weight_map": "x"}),
    ("names numbers", {"weight_map": {"a": 1}}),
    ("names a file outside", {"weight_map": {"a": "../../outside.safetensors"}}),
    ("names a file by its whole path", {"weight_map": {"a": "/etc/passwd"}}),
    ("names a missing file", {"weight_map": {"a": "missing.safetensors"}}),
    ("names no safetensors", {"weight_map": {"a": "config.json"}}),
    ("names nothing", {"weight_map": {}}),
    ("names a file with NUL", {"weight_map": {"a": "x\0y.safetensors"}}),
    ("names a file of 5,000 characters", {"weight_map": {"a": "x" * 5000 + ".safetensors"}}),
    ("names a device", {"weight_map": {"a": "/dev/zero"}}),
    ("names tensors that are not there", {"weight_map": {"a": "model-1.safetensors"}}),
)


def _index(value: object) -> Change:
    def change(folder: Path) -> None:
        (folder / "model.safetensors").rename(folder / "model-1.safetensors")
        (folder / "model.safetensors.index.json").write_text(json.dumps(value))

    return change


def _only_pickles(folder: Path) -> None:
    (folder / "model.safetensors").unlink()
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as archive:
        archive.writestr("archive/data.pkl", RAW_FAULTS[-1][1])
    (folder / "pytorch_model.bin").write_bytes(made.getvalue())


def _not_numbers(folder: Path) -> None:
    path = folder / "model.safetensors"
    header, data = split(path.read_bytes())
    start, stop = _first(header)["data_offsets"]
    content = bytearray(data)
    content[start:stop] = b"\xff" * (stop - start)
    path.write_bytes(joined(header, bytes(content)))


def _sarm_faults() -> list[tuple[str, Change]]:
    faults: list[tuple[str, Change]] = []
    for path in (
        "features",
        "text",
        "views",
        "state",
        "slots",
        "width",
        "layers",
        "attention_heads",
        "dropout",
    ):
        faults += [
            (f"size {path} is {value!r}", field("sarm.json", f"sizes.{path}", value)) for value in SIZE_VALUES
        ]
    odd: list[tuple[str, Any]] = [
        ("format", 9), ("format", None), ("mode", "x"), ("window.frames", 10**9), ("window.frames", "x"),
        ("window.gap_s", 0), ("window.gap_s", "x"), ("window.causal", 3), ("window.rewind", 10**9), ("window", 3),
        ("window.no_such", 3), ("views", "x"), ("views", []), ("views", [1]), ("views", ["a"] * 1000),
        ("state", [[]]), ("state", ["q"]), ("encoder", 3), ("encoder", {}), ("encoder.name", "os"),
        ("encoder.name", 3),
        ("encoder.name", "hf/stranger-of-this-machine/not/there"), ("sizes", 3), ("sizes", {}),
        ("sizes.stages", {"sparse": 10**9}), ("sizes.stages", {}), ("sizes.stages", {"a.b": 1}),
        ("procedures", {}), ("procedures", []), ("procedures.dense", {}), ("procedures.dense", 3),
        ("procedures.dense", {"x": {"stages": [], "breakpoints": []}}),
        ("procedures.dense", {"x": {"stages": ["a"], "breakpoints": [0, 0.5, 1]}}),
        ("procedures.dense", {"x": {"stages": ["a", "b", "c"], "breakpoints": [0, "x", 1, 2]}}),
        ("procedures.dense", {"x": {"stages": "abc", "breakpoints": [0, 0.5, 0.7, 1]}}),
        ("tasks", 3), ("tasks", {"a": 1}), ("progress", 3), ("facts", 3), ("no_such_field", 3),
    ]  # fmt: skip
    for path, value in odd:
        faults.append((f"config {path} is {str(value)[:40]!r}", field("sarm.json", path, value)))
    return faults


def _put_in(name: str, value: object, content: dict[str, Any]) -> None:
    content[name] = value


def _embedded_faults() -> list[tuple[str, Change]]:
    def gate(change: Callable[[dict[str, Any]], object]) -> Change:
        def of_header(header: dict[str, Any]) -> None:
            content = json.loads(header["__metadata__"]["gate"])
            change(content)
            header["__metadata__"]["gate"] = json.dumps(content)

        return _header(HEADERS["embedded"], of_header)

    faults: list[tuple[str, Change]] = [
        (f"gate {name} is {str(value)[:30]!r}", gate(partial(_put_in, name, value)))
        for name in ("format", "usual", "thresholds", "words", "facts")
        for value in (None, 7, "x", [], [1.0], {"drawer": [10**9]}, {"drawer": "x"}, [float("nan")] * 4)
    ]
    faults += [
        (f"config {name} is {value!r}", field("config.json", f"vision_config.{name}", value))
        for name in ("num_position_embeddings", "patch_size")
        for value in SIZE_VALUES
    ]
    return faults


def drawn(kind: str, rng: random.Random) -> tuple[str, Change]:
    """Return a random fault: flipped bytes, a cut, or a replaced field of a JSON text or header."""
    name = rng.choice((*TEXTS[kind], HEADERS[kind], HEADERS[kind]))
    how = rng.choice(("flips", "cut", "field"))
    if how == "flips":
        return f"{name} with bytes flipped", lambda folder: _flip(folder / name, rng)
    if how == "cut" or not name.endswith((".json", ".safetensors")):
        return f"{name} cut", lambda folder: os.truncate(
            folder / name, rng.randrange((folder / name).stat().st_size)
        )
    if name.endswith(".safetensors"):
        return f"{name} with a field of its header replaced", _header(
            name, lambda header: _replace(header, rng)
        )

    def change(folder: Path) -> None:
        content = json.loads((folder / name).read_bytes())
        _replace(content, rng)
        (folder / name).write_text(json.dumps(content))

    return f"{name} with a field replaced", change


def _flip(path: Path, rng: random.Random) -> None:
    content = bytearray(path.read_bytes())
    # Half of the flips hit the beginning, where the structure of a file is.
    for _ in range(rng.choice((1, 4, 64))):
        content[rng.randrange(min(len(content), 512) if rng.random() < 0.5 else len(content))] ^= (
            1 << rng.randrange(8)
        )
    path.write_bytes(content)


def _replace(value: Any, rng: random.Random) -> None:
    """Replace one value somewhere inside a JSON value."""
    places: list[tuple[Any, Any]] = []
    waiting = [value]
    while waiting and len(places) < 5000:
        found = waiting.pop()
        items = list(found.items() if isinstance(found, dict) else enumerate(found))
        places += [(found, key) for key, _ in items]
        waiting += [item for _, item in items if isinstance(item, dict | list)]
    if places:
        holder, key = rng.choice(places)
        holder[key] = rng.choice(ODD_VALUES)


def main() -> None:
    """Try many and print what each ended in; the exit code is 1 if any ended in anything but a StepScoreError."""
    import resource
    import sys
    import time
    import traceback
    import warnings

    from stepscore.errors import StepScoreError

    warnings.simplefilter("ignore")
    tries, seed = (int(text) for text in (*sys.argv[1:3], *("2000", "0")[len(sys.argv) - 1 :]))
    fixed = sum(len(written(kind)) for kind in HEADERS)
    refused = answered = faults = 0
    slowest = (0.0, "")
    for name, make in itertools.islice(variants(seed), tries):
        with TemporaryDirectory() as made:
            make(Path(made) / "checkpoint")
            started = time.monotonic()
            try:
                exercise(name, Path(made) / "checkpoint")
                answered += 1
            except StepScoreError as error:
                refused += 1
                if "\n" in str(error) or len(str(error)) > 1200:
                    faults += 1
                    print(f"MESSAGE {name}: {error}")
            except BaseException:
                faults += 1
                print(f"FAULT {name}\n{traceback.format_exc(limit=-4)}", flush=True)
            slowest = max(slowest, (time.monotonic() - started, name))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(
        f"{tries} tries ({fixed} written): {refused} refused, {answered} answered, {faults} faults; "
        f"peak {peak:.0f} MB; slowest {slowest[0]:.1f} s: {slowest[1]}"
    )
    raise SystemExit(1 if faults else 0)


if __name__ == "__main__":
    main()
