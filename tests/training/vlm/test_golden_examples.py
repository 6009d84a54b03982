"""What a seed draws is frozen: one command builds the embedded judge again, from exactly these sentences."""

from __future__ import annotations

import hashlib

import numpy as np
import pytest

from stepscore.models import FrameRef
from stepscore.training.vlm import setup as vlm_setup
from stepscore.training.vlm.data.clips import sample_clip, sample_statements
from stepscore.training.vlm.data.dataset import LabelledVideo, read_videos
from stepscore.training.vlm.data.image_batches import sample_questions, to_question
from stepscore.training.vlm.data.variants import vary
from tests.paths import TINY_SIM

PARAPHRASES = {"open the drawer": ["pull the drawer open", "slide it"]}


@pytest.fixture(scope="module")
def videos(tmp_path_factory: pytest.TempPathFactory) -> list[LabelledVideo]:
    return read_videos(TINY_SIM, 32, tmp_path_factory.mktemp("frames"))


def digest(rows: list[object]) -> str:
    return hashlib.sha256("\n".join(map(repr, rows)).encode()).hexdigest()[:16]


def test_clips_and_statements(videos: list[LabelledVideo]) -> None:
    texts, rng = vlm_setup.texts_of(videos, PARAPHRASES), np.random.default_rng(7)
    rows: list[object] = []
    for blocks in (1, 2, 4, 8, 12) * 8:
        video = videos[int(rng.integers(len(videos)))]
        clip = sample_clip(vary(video, rng), blocks, rng)
        rows += [clip.is_static, clip.source.tolist(), [round(t, 6) for t in clip.times.tolist()]]
        for statement in sample_statements(clip, texts, rng, max_prefixes=6):
            rows.append((statement.blocks, statement.text, round(statement.log_odds, 6), statement.static))
    assert digest(rows) == "98f7259128901cc7"


def test_questions_and_answers(videos: list[LabelledVideo]) -> None:
    rng = np.random.default_rng(7)
    rows: list[object] = []
    for source in vlm_setup.image_questions(videos):
        for video in videos[::4]:
            for example in sample_questions(source, video.episode, rng):
                question = to_question(example)
                parts = [part for turn in example.prompt.turns for part in turn.parts]
                rows += ["".join("<image>" if part is None else part for part in question.parts)]
                rows += [(example.question_type, example.answer, question.words, question.log_odds)]
                rows += [(part.view, part.index) for part in parts if isinstance(part, FrameRef)]
    assert digest(rows) == "3f44dcec7d477b88"
