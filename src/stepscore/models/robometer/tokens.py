"""The five tokens that Robometer adds to the vocabulary, in the order of their rows in the embedding."""

from __future__ import annotations

from typing import Any

from stepscore.errors import ModelError

SPLIT, PREFERENCE, PROGRESS = "<|split_token|>", "<|pref_token|>", "<|prog_token|>"
SPECIAL_TOKENS = (SPLIT, "<|reward_token|>", PREFERENCE, "<|sim_token|>", PROGRESS)
"""In this order they were added, and the embedding resized: the rows after those of the base model's tokenizer."""


def add_special_tokens(tokenizer: Any, rows: int, name: str) -> None:
    """Give a tokenizer the five tokens where it lacks them, and check that each has its own row.

    Args:
        tokenizer: The checkpoint's, or that of its base model, which lacks them.
        rows: Rows of the embedding.
        name: The model string, for messages.

    Raises:
        ModelError: It knows some of them and not others, has them in another order, or is another model's tokenizer.
    """
    known = [token for token in SPECIAL_TOKENS if token in tokenizer.get_vocab()]
    if known and len(known) < len(SPECIAL_TOKENS):
        missing = next(token for token in SPECIAL_TOKENS if token not in known)
        raise ModelError(
            f"{name}: its tokenizer knows {known[0]} and not {missing}. Give the tokenizer of the base model, to "
            "which all five tokens are added: -M tokenizer=FOLDER-OR-ID"
        )
    if not known:
        if len(tokenizer) + len(SPECIAL_TOKENS) != rows:
            raise ModelError(
                f"{name}: its embedding has {rows} rows, and the tokenizer {len(tokenizer)} tokens, not "
                f"{rows - len(SPECIAL_TOKENS)}: it is another model's. Give the tokenizer of its base model: "
                "-M tokenizer=FOLDER-OR-ID"
            )
        tokenizer.add_tokens(list(SPECIAL_TOKENS), special_tokens=True)
    ids = tokenizer.convert_tokens_to_ids(list(SPECIAL_TOKENS))
    if ids != list(range(rows - len(SPECIAL_TOKENS), rows)):
        raise ModelError(
            f"{name}: its tokenizer numbers {', '.join(SPECIAL_TOKENS)} as {', '.join(map(str, ids))}; their rows in "
            f"the embedding are {rows - len(SPECIAL_TOKENS)} to {rows - 1}, in this order."
        )
