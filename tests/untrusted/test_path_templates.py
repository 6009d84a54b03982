"""Path templates come with a dataset: they name files in it, and do nothing else."""

from __future__ import annotations

from pathlib import Path

import pytest

from stepscore._untrusted.path_templates import check_template
from stepscore.episodes import open_episodes
from stepscore.errors import SourceError
from tests.episodes.lerobot.datasets import change_info, dataset

V3 = "videos/{video_key}/chunk-{chunk_index:03d}/file-{file_index:03d}.mp4"
V2 = "videos/chunk-{episode_chunk:03d}/{video_key}/episode_{episode_index:06d}.mp4"


def check(template: str, *, is_v3: bool = True, feature: str = "observation.images.top") -> None:
    """Raise SourceError where a template is refused."""
    check_template(template, [feature], "meta/info.json", is_v3=is_v3)


@pytest.mark.parametrize(
    "template", [V3, "a/{chunk_index}/{file_index:d}.mp4", "all.mp4", "{{x}}/{chunk_index:5d}.mp4", ""]
)
def test_templates_of_lerobot_are_plain(template: str) -> None:
    check(template)
    check(V2, is_v3=False)


@pytest.mark.parametrize(
    "template",
    [
        "{chunk_index:>999999999}", "{chunk_index:0999999999d}", "{file_index:e}", "{chunk_index:,}",
        "{video_key:>9}", "{video_key!r}", "{video_key.__class__}", "{video_key[0]}", "{chunk_index.real}",
        "{0}", "{}", "{unknown}", "{", "{chunk_index:{file_index}}", "{episode_index}",
    ],
)  # fmt: skip
def test_a_format_spec_that_does_more_is_refused(template: str) -> None:
    with pytest.raises(
        SourceError, match=r"meta/info\.json: the path template .* It may contain chunk_index"
    ):
        check(f"videos/{template}.mp4")


@pytest.mark.parametrize(
    "template", ["/etc/passwd", "../x.mp4", "a/../../x.mp4", "C:\\x.mp4", "a\\..\\x.mp4", "\\\\host\\x"]
)
def test_a_path_out_of_the_dataset_is_refused(template: str) -> None:
    with pytest.raises(SourceError, match="leads out of the dataset"):
        check(template)


@pytest.mark.parametrize("feature", ["../../x", "/etc", ".."])
def test_a_feature_cannot_lead_out_either(feature: str) -> None:
    with pytest.raises(SourceError, match="leads out of the dataset"):
        check("{video_key}/{chunk_index:03d}.mp4", feature=feature)


@pytest.mark.parametrize("field", ["video_path", "data_path"])
def test_a_dataset_with_such_a_template_is_not_opened(tmp_path: Path, field: str) -> None:
    root = dataset(tmp_path / "d", lengths=(3, 2))
    change_info(root, **{field: "{chunk_index:>999999999}"})
    with pytest.raises(SourceError, match="the path template"):
        open_episodes(root)
