"""Training of judges on labelled episodes: a vision-language model, SARM, and the embedded judge with its gate."""

from typing import TYPE_CHECKING

from stepscore._imports import lazy_attributes
from stepscore.training.job import default_threads
from stepscore.training.sarm import SarmJob
from stepscore.training.vlm import VlmJob

if TYPE_CHECKING:
    from stepscore.training.labelled_source import LabelledSource as LabelledSource
    from stepscore.training.scenes import scene_of as scene_of
    from stepscore.training.scenes import validation_scenes as validation_scenes
    from stepscore.training.vlm.data.answer_key import EpisodeTruth as EpisodeTruth
    from stepscore.training.vlm.data.judge_questions import TrainingExample as TrainingExample
    from stepscore.training.vlm.data.judge_questions import sample_examples as sample_examples

__all__ = [
    "EpisodeTruth",
    "LabelledSource",
    "SarmJob",
    "TrainingExample",
    "VlmJob",
    "default_threads",
    "sample_examples",
    "scene_of",
    "validation_scenes",
]

# Options of a training are listed without NumPy.
__getattr__ = lazy_attributes(
    __name__,
    {
        "EpisodeTruth": "vlm.data.answer_key",
        "LabelledSource": "labelled_source",
        "TrainingExample": "vlm.data.judge_questions",
        "sample_examples": "vlm.data.judge_questions",
        "scene_of": "scenes",
        "validation_scenes": "scenes",
    },
)
