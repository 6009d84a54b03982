"""Exact prefix scoring against K full passes: time on one thread, counted work, memory, several instructions.

32 frames of 224x224 through a random Qwen3-VL whose language model has about 100M weights. Limits: full passes
(with logits_to_keep=1) / shared at least 4.5 at K=16 and at least 0.85 of the ratio of counted FLOPs;
incremental / shared above 1; peak memory at most 1.5 times that of full passes; four instructions on one video
at least 2.5 times as fast as one by one at K=8, at least 2 at K=16. Seconds are processor time of this process on
one thread, of several rounds taken in turns, so that a busy machine changes them less.
"""

from __future__ import annotations

import re
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.utils.flop_counter import FlopCounterMode, sdpa_flop_count
from transformers import AutoModelForImageTextToText, Qwen3VLConfig

from stepscore.episodes import Clip
from stepscore.models.chatml import RenderedPrefixes
from stepscore.models.qwen3vl.full_forward import score_naive
from stepscore.models.qwen3vl.inputs import Geometry, VisionTokens
from stepscore.models.qwen3vl.network import Qwen3VLNetwork
from stepscore.models.qwen3vl.prefix_scoring import prepare_video, score_incremental, score_shared
from stepscore.models.qwen3vl.prompts import QwenInputs

FRAMES, SIDE = 32, 224
HEAD = "<|im_start|>user\n"
TAIL = (
    "The above video shows a robot manipulation trajectory that completes the following task: {} "
    "Decide whether the above statement is True or not. The answer is:"
)
INSTRUCTIONS = (
    "pick up the red cup and place it on the plate next to the sink",
    "open the top drawer and put the spoon that lies on the table into it",
    "push the green block to the left until it touches the wall of the box",
    "fold the towel twice and lay it down in the middle of the table",
)
TEXT = {
    "vocab_size": 32768,
    "hidden_size": 1024,
    "intermediate_size": 3072,
    "num_hidden_layers": 8,
    "num_attention_heads": 16,
    "num_key_value_heads": 8,
    "head_dim": 64,
    "max_position_embeddings": 32768,
}
VISION = {
    "depth": 8,
    "hidden_size": 384,
    "intermediate_size": 1536,
    "num_heads": 6,
    "num_position_embeddings": 2304,
}
TOKENS = VisionTokens(start=1, end=2, image=3, video=4)


def encode(text: str, known: dict[str, int] = {}) -> list[int]:  # noqa: B006 - the vocabulary grows as it is met
    """A word or sign a token, digits one by one: about what Qwen's tokenizer makes of these prompts."""
    pieces = re.findall(r"<\|\w+\|>|\d| ?[A-Za-z]+| ?[^\w\s]|\s", text)
    return [known.setdefault(piece, 5 + len(known)) for piece in pieces]


def network() -> Qwen3VLNetwork:
    torch.manual_seed(0)
    rope = {
        "rope_type": "default",
        "rope_theta": 5e6,
        "mrope_section": [12, 10, 10],
        "mrope_interleaved": True,
    }
    config = Qwen3VLConfig(
        text_config={**TEXT, "rope_parameters": rope},
        vision_config={**VISION, "out_hidden_size": 1024, "deepstack_visual_indexes": [1, 3, 5]},
        tie_word_embeddings=True,
        vision_start_token_id=TOKENS.start,
        vision_end_token_id=TOKENS.end,
        image_token_id=TOKENS.image,
        video_token_id=TOKENS.video,
    )
    model = AutoModelForImageTextToText.from_config(config, attn_implementation="sdpa").eval()
    return Qwen3VLNetwork(model, encode, TOKENS, Geometry())


def request(k: int, instructions: tuple[str, ...]) -> RenderedPrefixes:
    frames = np.random.default_rng(0).integers(0, 256, (FRAMES, SIDE, SIDE, 3), dtype=np.uint8)
    clip = Clip(frames, np.arange(FRAMES) / 2, np.arange(FRAMES))
    lengths = tuple(int(n) for n in np.linspace(FRAMES / k, FRAMES, k))
    tails = tuple(TAIL.format(i) for i in instructions)
    return RenderedPrefixes(clip, lengths, HEAD, tails, (" True", " False"))


def seconds(work: Callable[[], Any]) -> float:
    """Processor time of one run."""
    started = time.process_time()
    work()
    return time.process_time() - started


def in_turns(work: dict[str, Callable[[], Any]], rounds: int) -> dict[str, list[float]]:
    """The times of each, run in turns, so that a disturbance does not fall on one of them alone."""
    took = [{name: seconds(run) for name, run in work.items()} for _ in range(rounds)]
    return {name: [one[name] for one in took] for name in work}


def flops(work: Callable[[], Any]) -> tuple[Any, int]:
    """Return the scores, and the work counted by torch, attention on the processor included."""

    def attention(query: Any, key: Any, value: Any, *args: Any, **kwargs: Any) -> int:
        return sdpa_flop_count(query, key, value)

    kernel = getattr(torch.ops.aten, "_scaled_dot_product_flash_attention_for_cpu")  # noqa: B009 - torch has no other name
    with FlopCounterMode(display=False, custom_mapping={kernel: attention}) as counter:
        found = work()
    return found, counter.get_total_flops()


def ways(net: Qwen3VLNetwork, k: int, *instructions: str) -> dict[str, Callable[[], Any]]:
    scored = request(k, instructions)
    prompts = QwenInputs(net.encode, net.tokens, net.geometry)
    return {
        "full": lambda: score_naive(net.model, prompts, scored)[0],
        "incremental": lambda: score_incremental(net, prepare_video(net, scored)),
        "shared": lambda: score_shared(net, [prepare_video(net, scored)])[0],
    }


def peak_mb(way: str) -> float:
    """Memory one way takes at its peak beyond the model, in a process of its own."""
    command = [sys.executable, __file__, "--peak", way]
    return float(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def print_peak(way: str) -> None:
    def resident(field: str) -> float:
        status = Path("/proc/self/status").read_text()
        return float(re.search(rf"{field}:\s+(\d+) kB", status)[1]) / 1024  # type: ignore[index]

    net = network()
    before = resident("VmRSS")
    Path("/proc/self/clear_refs").write_text("5")  # the peak counts from here
    if way == "full":
        scored = request(1, INSTRUCTIONS[:1])  # the longest prefix is where full passes peak
        score_naive(net.model, QwenInputs(net.encode, net.tokens, net.geometry), scored)
    else:
        ways(net, 16, INSTRUCTIONS[0])[way]()
    print(resident("VmHWM") - before)


def main() -> None:
    torch.set_num_threads(1)
    net = network()
    text = sum(p.numel() for n, p in net.model.named_parameters() if ".layers." in n)
    vision = sum(p.numel() for n, p in net.model.named_parameters() if ".visual." in n)
    print(
        f"language model {text / 1e6:.0f}M + embedding {32768 * 1024 / 1e6:.0f}M, vision {vision / 1e6:.0f}M"
    )
    print(f"text {TEXT}\nvision {VISION}")
    plan = prepare_video(net, request(16, INSTRUCTIONS[:1])).plan
    print(f"K=16: base {len(plan.base)} tokens, suffix {len(plan.branches[0].stem)}, {plan.tokens} in all")
    failed = []

    def check(name: str, value: float, limit: float, *, most: bool = False) -> None:
        bad = value > limit if most else value < limit
        failed.extend([name] if bad else [])
        print(f"{name}: {value:.2f} ({'at most' if most else 'at least'} {limit}){'  FAILED' if bad else ''}")

    work = ways(net, 16, INSTRUCTIONS[0])
    counted, scores = {}, {}
    for way, run in work.items():
        scores[way], counted[way] = flops(run)
    took = {"full": seconds(work["full"])}  # K passes, which even out among themselves
    short = in_turns({way: work[way] for way in ("incremental", "shared")}, rounds=3)
    took |= {way: float(np.median(times)) for way, times in short.items()}
    apart = np.max(np.abs(scores["shared"] - scores["full"]))
    print(f"shared differs from full passes by {apart:.1e} nats")
    for way in work:
        print(f"K=16 {way}: {took[way]:.2f} s, {counted[way] / 1e9:.0f} GFLOP")
    ratio, theory = took["full"] / took["shared"], counted["full"] / counted["shared"]
    check("full / shared", ratio, 4.5)
    print(f"counted work, full / shared: {theory:.2f}")
    check("time ratio / counted ratio", ratio / theory, 0.85)
    check("incremental / shared", took["incremental"] / took["shared"], 1.0)
    for k, limit in ((8, 2.5), (16, 2.0)):
        runs = {one: ways(net, k, one)["shared"] for one in INSTRUCTIONS}
        times = in_turns({**runs, "together": ways(net, k, *INSTRUCTIONS)["shared"]}, rounds=2)
        together = min(times["together"])
        alone = sum(min(times[one]) for one in INSTRUCTIONS)
        print(f"K={k}, four instructions: {alone:.2f} s one by one, {together:.2f} s together")
        check(f"four instructions, one by one / together, K={k}", alone / together, limit)
    peaks = {way: peak_mb(way) for way in ("full", "shared")}
    print(f"peak memory beyond the model: full {peaks['full']:.0f} MB, shared {peaks['shared']:.0f} MB")
    check("peak memory, shared / full", peaks["shared"] / peaks["full"], 1.5, most=True)
    if failed:
        sys.exit(f"Failed: {', '.join(failed)}")


if __name__ == "__main__":
    torch.set_num_threads(1)
    print_peak(sys.argv[2]) if sys.argv[1:2] == ["--peak"] else main()
