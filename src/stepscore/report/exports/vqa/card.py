"""The card of exported questions, and the description that LLaMA-Factory reads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from stepscore.report.exports.vqa.questions import KINDS

_TAGS = {
    "role_tag": "role",
    "content_tag": "content",
    "user_tag": "user",
    "assistant_tag": "assistant",
    "system_tag": "system",
}


def dataset_info(splits: Sequence[str]) -> dict[str, object]:
    """Return LLaMA-Factory's ``dataset_info.json``: a dataset ``stepscore_SPLIT`` for each split."""
    columns = {"messages": "messages", "images": "images"}
    return {
        f"stepscore_{split}": {
            "file_name": split,
            "formatting": "sharegpt",
            "columns": columns,
            "tags": _TAGS,
        }
        for split in splits
    }


def card_text(
    counts: Mapping[str, Mapping[str, int]], episodes: Mapping[str, int], images: int, left_out: int
) -> str:
    """Return the card: what there is, how much of it, and how it is loaded."""
    splits = [split for split in counts if counts[split]]
    rows = [
        f"| {kind} | " + " | ".join(str(counts[split].get(kind, 0)) for split in splits) + " |"
        for kind in KINDS
    ]
    return f"""# Questions about labelled robot rollouts

Made by `stepscore export --to vqa`. Every answer follows from the labels, and what they do not state is not asked.
Whole scenes are in one split.

| question | {" | ".join(splits)} |
|---|{"---|" * len(splits)}
{chr(10).join(rows)}
| episodes | {" | ".join(str(episodes.get(split, 0)) for split in splits)} |

{images} images. {left_out} episodes left out, because no label answers a question or no frame can be read.

Each line of `SPLIT/*.jsonl` has `messages` (role and content, with `<image>` in the place of each image), `images`
(paths in this folder), `kind` and `episode`.

- **LLaMA-Factory**: `dataset_dir: THIS_FOLDER`, `media_dir: THIS_FOLDER`, `dataset: stepscore_train`.
- **TRL** takes messages in parts. Run this in the folder:

```python
from datasets import Image, Sequence, load_dataset

def in_parts(row):
    for message in row["messages"]:
        texts = message["content"].split("<image>")
        parts = [{{"type": "text", "text": texts[0]}}] if texts[0] else []
        for text in texts[1:]:
            parts.append({{"type": "image", "text": None}})
            parts += [{{"type": "text", "text": text}}] if text else []
        message["content"] = parts
    return row

train = load_dataset("json", data_files="train/*.jsonl", split="train")
train = train.map(in_parts, remove_columns=["kind", "episode"]).cast_column("images", Sequence(Image()))
```
"""
