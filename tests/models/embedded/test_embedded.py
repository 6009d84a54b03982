"""The model string ``embedded``: a checkpoint in the package behind a gate."""

from __future__ import annotations

import json
import pickle
import shutil
import warnings
from pathlib import Path

import numpy as np
import pytest

import stepscore
from stepscore.audit.board import Entry, open_entry
from stepscore.audit.tune.grid import make_grid
from stepscore.cli.options.judges import JudgeFlags
from stepscore.episodes import Clip, Episodes, open_episodes
from stepscore.episodes.perturbations.perturb import perturb
from stepscore.errors import ModelError, OptionError, UnknownNameError
from stepscore.judges import TopReward
from stepscore.judges.common import read_calibration
from stepscore.models import (
    Answer,
    DecodedMedia,
    Generate,
    PrefixScores,
    Prompt,
    ScorePrefixes,
    Scores,
    Turn,
    get_model,
)
from stepscore.models.embedded.model import (
    CALIBRATION,
    CAMERA_HINT,
    CAUSAL_CALIBRATION,
    FOLDER,
    REFUSAL,
    EmbeddedModel,
    torch_network,
)
from stepscore.models.embedded.ood import GATE_FILE, save_gate
from stepscore.models.hf.model import HfModel
from stepscore.runs import Run
from stepscore.training.gate.config import GateConfig
from stepscore.training.gate.training import train_gate
from tests.models import tiny
from tests.models.embedded import scenes

DEMO = Path(stepscore.__file__).parent / "cli" / "demo_data"
real = pytest.mark.skipif(
    not (FOLDER / "model.safetensors").is_file(),
    reason=f"EMBEDDED JUDGE ABSENT: no {FOLDER / 'model.safetensors'}; the tests of the judge itself did not run",
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A random checkpoint with a gate that knows the drawn scenes."""
    made = tiny.tokenizer()
    place = tiny.save(tmp_path_factory.mktemp("embedded"), tiny.qwen3vl(made), made)
    network = torch_network(place)
    config = GateConfig(
        n_augmentations=2,
        n_ood_augmentations=1,
        n_corruptions=1,
        components=16,
        hidden_dim=32,
        steps=400,
        bank_per_scene=60,
    )
    ood = scenes.images("other", 24)
    gate = train_gate(network, scenes.in_distribution(), ood, config, scenes.PARAPHRASES)
    save_gate(gate, place / GATE_FILE)
    return place


@pytest.fixture(scope="module")
def model(folder: Path) -> EmbeddedModel:
    made = get_model("embedded", checkpoint=str(folder))
    assert isinstance(made, EmbeddedModel)
    return made


def video(kind: str, n: int = 4, seed: int = 20) -> DecodedMedia:
    frames = np.stack([p.pixels for p in scenes.images(kind, n, seed)])
    return DecodedMedia(Clip(frames, np.arange(n) / 2, np.arange(n)), True)


def prefixes(kind: str) -> ScorePrefixes:
    return ScorePrefixes(video(kind), (2, 4), tiny.statements(), tiny.CANDIDATES)


def stills(kind: str) -> Prompt:
    shown = tuple(
        DecodedMedia(Clip(p.pixels[None], np.zeros(1), np.zeros(1, int))) for p in scenes.images(kind, 3, 21)
    )
    return Prompt((Turn("user", ("Is the drawer open?", *shown)),))


class TestTheModelString:
    def test_it_stands_alone(self, folder: Path) -> None:
        assert get_model("embedded", checkpoint=str(folder)).name == "embedded"

    @pytest.mark.parametrize("wrong", ["embedded/", "embedded/small", "hf", "hf/"])
    def test_nothing_stands_after_it_and_others_need_something(self, wrong: str) -> None:
        with pytest.raises(OptionError, match=r"Valid forms: embedded, hf/\.\.\."):
            get_model(wrong)

    def test_a_wrong_option_lists_the_valid_ones(self) -> None:
        with pytest.raises(UnknownNameError, match="gate"):
            get_model("embedded", gates=True)
        with pytest.raises(OptionError, match="true or false"):
            get_model("embedded", gate="maybe")

    def test_a_folder_without_a_checkpoint_says_so(self, tmp_path: Path) -> None:
        with pytest.raises(ModelError, match=r"no config\.json"):
            get_model("embedded", checkpoint=str(tmp_path))


class TestDescription:
    def test_it_has_the_gate_and_no_place(self, folder: Path, model: EmbeddedModel) -> None:
        result = model.describe()
        assert json.loads(json.dumps(result)) == result
        assert str(folder) not in json.dumps(result)
        assert (result["name"], result["max_pixels"], result["runtime"]) == (
            "embedded",
            64 * 64,
            "numpy float32",
        )
        assert result["gate"]
        assert get_model("embedded", checkpoint=str(folder), gate=False).describe()["gate"] is None

    def test_it_is_told_without_loading(self, folder: Path) -> None:
        fresh = EmbeddedModel(checkpoint=str(folder))
        fresh.describe()
        assert fresh.capabilities.prefix_sharing == "exact"
        assert not fresh._engine.is_loaded

    def test_it_travels(self, model: EmbeddedModel) -> None:
        again = pickle.loads(pickle.dumps(model))
        assert again == model
        one, other = (m.score_prefixes(prefixes("trained")).logprobs for m in (model, again))
        np.testing.assert_allclose(one, other, atol=1e-6)


class TestAnswers:
    def test_a_trained_scene_is_answered_as_the_hf_model_would(
        self, folder: Path, model: EmbeddedModel
    ) -> None:
        plain = get_model(f"hf/{folder}", max_pixels=64 * 64)
        assert isinstance(plain, HfModel)
        result = model.score_prefixes(prefixes("trained"))
        np.testing.assert_allclose(
            result.logprobs, plain.score_prefixes(prefixes("trained")).logprobs, atol=1e-6
        )

    def test_a_foreign_one_is_unknown_in_every_form(self, folder: Path) -> None:
        model = EmbeddedModel(checkpoint=str(folder))
        with pytest.warns(UserWarning, match="--model"):
            scored = model.score_prefixes(prefixes("other"))
        assert scored.logprobs.shape == (1, 2, 2)
        assert np.isnan(scored.logprobs).all()
        said = model.generate(Generate(stills("other")))
        assert "--model" in said.text
        words = model.score(stills("other"), (" yes", " no"))
        assert words == Scores((0.0, 0.0), (True, True))

    def test_it_warns_once_and_not_at_every_call(self, folder: Path) -> None:
        model = EmbeddedModel(checkpoint=str(folder))
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            for _ in range(3):
                model.score_prefixes(prefixes("other"))
        assert [str(one.message) for one in caught if "embedded" in str(one.message)] == [
            f"embedded: {REFUSAL}. {CAMERA_HINT}"
        ]

    def test_without_the_gate_it_answers_on_anything(self, folder: Path) -> None:
        free = EmbeddedModel(checkpoint=str(folder), gate=False)
        assert np.isfinite(free.score_prefixes(prefixes("other")).logprobs).all()

    def test_a_question_without_images_is_answered(self, model: EmbeddedModel) -> None:
        said = model.generate(Generate(Prompt((Turn("user", ("Hello?",)),)), max_tokens=2))
        assert isinstance(said, Answer)
        assert said.text != REFUSAL

    def test_a_growing_video_is_decided_by_its_first_frame(self, folder: Path) -> None:
        model = EmbeddedModel(checkpoint=str(folder))
        for kind, known in (("trained", True), ("other", False)):
            stream = model.open_stream(tiny.statements()[0])
            stream.append(video(kind).clip)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                result = stream.score(tiny.statements(), tiny.CANDIDATES)
            assert np.isfinite(result).all() == known
            if known:
                whole = model.score_prefixes(prefixes(kind)).logprobs[:, -1]
                np.testing.assert_allclose(result, whole, atol=1e-4)

    def test_a_warm_up_loads_the_weights_and_changes_no_score(self, folder: Path) -> None:
        model = EmbeddedModel(checkpoint=str(folder))
        assert not model._engine.is_loaded
        with warnings.catch_warnings():
            warnings.simplefilter(
                "error"
            )  # blank frames are out of distribution, and nobody asked about them
            model.warm_up(tiny.statements()[0], tiny.CANDIDATES)
        assert model._engine.is_loaded
        stream = model.open_stream(tiny.statements()[0])
        assert len(stream) == 0
        stream.append(video("trained").clip)
        whole = EmbeddedModel(checkpoint=str(folder)).score_prefixes(prefixes("trained")).logprobs[:, -1]
        np.testing.assert_allclose(stream.score(tiny.statements(), tiny.CANDIDATES), whole, atol=1e-4)

    def test_a_missing_gate_is_an_error_and_not_an_open_door(self, folder: Path, tmp_path: Path) -> None:
        import shutil

        bare = Path(shutil.copytree(folder, tmp_path / "bare"))
        (bare / GATE_FILE).unlink()
        with pytest.raises(ModelError, match="gate=false"):
            EmbeddedModel(checkpoint=str(bare)).score_prefixes(prefixes("trained"))


@pytest.fixture(scope="module")
def rooms(tmp_path_factory: pytest.TempPathFactory) -> Episodes:
    from tests.media import write_video

    root = tmp_path_factory.mktemp("rooms")
    for number in range(2):
        frames = np.stack([p.pixels for p in scenes.images("other", 12, seed=40 + number)])
        write_video(root / f"room_{number}.mp4", size=(128, 128), fps=4, frames=list(frames))
    return open_episodes(root)


class TestJudges:
    """What a refused video becomes in a run: unknown, counted, and no failure."""

    def run(self, folder: Path, rooms: Episodes, out: Path, judge: str, **options: object) -> Run:
        from stepscore.runs import CallOptions

        model = EmbeddedModel(checkpoint=str(folder))
        made = stepscore.get_judge(judge, model=model, **options)
        call_options = CallOptions(cache_path=out / "cache.sqlite")
        with pytest.warns(UserWarning, match="--model"):
            return stepscore.score(rooms, made, out / judge, call_options=call_options)

    @pytest.mark.parametrize(
        ("judge", "options"),
        [("topreward", {"prefixes": 3}), ("procvlm", {"points": 3}), ("hop", {"points": 3})],
    )
    def test_curves_are_unknown_and_nothing_failed(
        self, folder: Path, rooms: Episodes, tmp_path: Path, judge: str, options: dict[str, object]
    ) -> None:
        run = self.run(folder, rooms, tmp_path, judge, **options)
        rows = run.judgements().to_pylist()
        assert [row["error"] for row in rows] == [None, None]
        assert [row["success_score"] for row in rows] == [None, None]
        progress = run.curves().column("progress").to_pylist()
        assert progress
        assert all(value is None for value in progress)

    def test_the_warning_is_given_again_when_every_answer_comes_from_the_cache(
        self, folder: Path, rooms: Episodes, tmp_path: Path
    ) -> None:
        self.run(folder, rooms, tmp_path, "topreward", prefixes=3)
        (tmp_path / "topreward").rename(tmp_path / "before")
        run = self.run(folder, rooms, tmp_path, "topreward", prefixes=3)
        assert [row["attempts"] for row in run.usage().to_pylist()] == [0, 0]

    def test_verdicts_are_unknown(self, folder: Path, rooms: Episodes, tmp_path: Path) -> None:
        from dataclasses import replace

        from stepscore.episodes.labels.subgoals import Subgoal

        judged = [replace(episode, subgoals=(Subgoal("open the drawer"),)) for episode in rooms]
        for answer, words in (("tokens", (" True", " False")), ("text", ("Yes", "No"))):
            run = self.run(
                folder,
                judged,  # type: ignore[arg-type]
                tmp_path / answer,
                "stepeval",
                strategy="per-subgoal",
                answer=answer,
                words=words,
                frames=2,
            )
            verdicts = run.verdicts().to_pylist()
            assert [v["answer"] for v in verdicts] == ["unknown", "unknown"]
            assert [v["score"] for v in verdicts] == [None, None]
            if answer == "text":
                assert all("--model" in v["why"] for v in verdicts)


@pytest.fixture(scope="module")
def packaged() -> EmbeddedModel:
    made = get_model("embedded")
    assert isinstance(made, EmbeddedModel)
    return made


@pytest.fixture(scope="module")
def demo() -> Episodes:
    return open_episodes(DEMO, labels=DEMO / "labels.parquet", subgoals=DEMO / "subgoals.yaml")


@real
class TestTheJudgeInThePackage:
    def test_it_is_small(self) -> None:
        assert sum(path.stat().st_size for path in FOLDER.rglob("*") if path.is_file()) < 25 * 2**20

    def test_it_answers_sixteen_prefixes_of_a_bundled_rollout(
        self, packaged: EmbeddedModel, demo: Episodes
    ) -> None:
        episode = next(e for e in demo if e.info is not None and e.info.n_frames >= 32)
        clip = episode.clip(count=32, size=224)
        lengths = tuple(range(2, 33, 2))
        request = ScorePrefixes(
            DecodedMedia(clip, True), lengths, tiny.statements(episode.instruction), tiny.CANDIDATES
        )
        result = packaged.score_prefixes(request)
        assert isinstance(result, PrefixScores)
        assert result.logprobs.shape == (1, 16, 2)
        assert np.isfinite(result.logprobs).all()

    def test_bundled_rollouts_pass_the_gate_also_when_changed(
        self, packaged: EmbeddedModel, demo: Episodes
    ) -> None:
        changes: list[tuple[str, dict[str, object]]] = [
            ("shifted", {"dx": 8}),
            ("zoomed", {"factor": 1.15}),
            ("darker", {"factor": 0.7}),
            ("recompressed", {"quality": 40}),
        ]
        check = packaged._check
        assert check is not None
        shown = [*demo, *(perturb(episode, name, **how) for name, how in changes for episode in demo)]
        passed = [
            check.accepts_images([e.clip(indices=[0], size=224).frames[0]], e.instruction) for e in shown
        ]
        assert np.mean(passed) >= 0.95

    def test_real_rollouts_do_not(self, packaged: EmbeddedModel, shared_data: Path) -> None:
        check = packaged._check
        assert check is not None
        videos = open_episodes(shared_data / "rollouts")
        moments = [frame for episode in videos for frame in episode.clip(count=6, size=224).frames]
        texts = ("open the drawer", "push the puck to the mark", "a text about nothing")
        passed = [check.accepts_images([frame], text) for frame in moments for text in texts]
        assert len(passed) >= 180
        assert np.mean(passed) <= 0.05

    def test_success_scores_above_failure(self, packaged: EmbeddedModel, demo: Episodes) -> None:
        scores: dict[bool, list[float]] = {True: [], False: []}
        for episode in list(demo)[::2]:
            clip = episode.clip(count=24, size=224)
            prompts = tiny.statements(episode.instruction)
            result = packaged.score_prefixes(
                ScorePrefixes(DecodedMedia(clip, True), (len(clip),), prompts, tiny.CANDIDATES)
            )
            assert isinstance(result, PrefixScores)
            scores[bool(episode.labels.success)].append(
                float(result.logprobs[0, 0, 0] - result.logprobs[0, 0, 1])
            )
        assert np.median(scores[True]) > np.median(scores[False]) + 1

    def test_topreward_has_its_options_and_its_maps_by_default(self, packaged: EmbeddedModel) -> None:
        judge = stepscore.get_judge("topreward", model=packaged)
        same = stepscore.get_judge("topreward", model=packaged, min_first=2, calibration=str(CALIBRATION))
        assert judge.options() == same.options()
        assert judge.options()["min_first"] == 2
        assert judge.options()["calibration"]

    def test_stepeval_asks_it_by_statements_and_every_subgoal_of_the_demo_is_answered(
        self, packaged: EmbeddedModel, demo: Episodes, tmp_path: Path
    ) -> None:
        judge = stepscore.get_judge("stepeval", model=packaged)
        run = stepscore.score(list(demo)[::8], judge, out=tmp_path / "run")
        answers = [row["answer"] for row in run.verdicts().to_pylist()]
        assert len(answers) >= 12
        assert "unknown" not in answers

    def test_command_bench_and_tune_make_the_judge_that_python_makes(self, packaged: EmbeddedModel) -> None:
        expected = stepscore.get_judge("stepeval", model=packaged).options()
        assert (expected["strategy"], expected["answer"]) == ("per-subgoal", "statement")
        of_command = JudgeFlags(model="embedded").open("stepeval")  # judge, audit
        of_bench = open_entry(Entry("stepeval", "embedded")).judge
        grid = make_grid(
            lambda given: stepscore.get_judge("stepeval", model=packaged, **given), {"frames": [8]}
        )
        of_tune = grid.trials[0].judge
        assert of_bench is not None
        assert [j.options() for j in (of_command, of_bench, of_tune)] == [expected] * 3
        assert grid.trials[1].judge.options()["answer"] == "statement"

    @pytest.mark.parametrize(
        "given",
        [{"strategy": "all-at-once"}, {"template": "strict"}, {"repeats": 3}, {"strategy": "sequential"}],
    )
    def test_options_that_contradict_its_defaults_win_and_one_line_says_so(
        self, packaged: EmbeddedModel, given: dict[str, object]
    ) -> None:
        with pytest.warns(
            UserWarning, match=r"embedded: its defaults .*answer=statement.* are not used"
        ) as said:
            judge = stepscore.get_judge("stepeval", model=packaged, **given)
        assert len(said) == 1
        assert judge.options()["answer"] == "text"
        assert {key: judge.options()[key] for key in given} == given

    def test_an_option_that_is_wrong_by_itself_is_named_without_its_defaults(
        self, packaged: EmbeddedModel, recwarn: pytest.WarningsRecorder
    ) -> None:
        with pytest.raises(OptionError, match="frames"):
            stepscore.get_judge("stepeval", model=packaged, frames=0)
        assert not recwarn.list

    def test_other_options_are_uncalibrated_and_say_so_in_one_line(self, packaged: EmbeddedModel) -> None:
        with pytest.warns(UserWarning, match="fitted with min_first=2, not 8; .* uncalibrated") as said:
            judge = stepscore.get_judge("topreward", model=packaged, min_first=8)
        assert len(said) == 1
        assert judge.options()["calibration"] is None
        with pytest.raises(OptionError, match="fitted with min_first=2"):
            stepscore.get_judge("topreward", model=packaged, min_first=8, calibration=str(CALIBRATION))

    def test_its_maps_are_of_no_other_model(self) -> None:
        same_files = HfModel(str(FOLDER))
        judge = stepscore.get_judge("topreward", model=same_files)
        assert judge.options()["calibration"] is None
        assert judge.options()["min_first"] == 8
        with pytest.raises(OptionError, match="fitted with embedded, not hf/"):
            stepscore.get_judge("topreward", model=same_files, min_first=2, calibration=str(CALIBRATION))

    def test_without_its_gate_it_is_uncalibrated(self) -> None:
        with pytest.warns(UserWarning, match="another gate of embedded"):
            judge = stepscore.get_judge("topreward", model=get_model("embedded", gate=False))
        assert judge.options()["calibration"] is None

    def test_its_success_map_was_fitted_on_forty_episodes_of_each_task_or_more(self) -> None:
        success = read_calibration(CALIBRATION).success
        assert success is not None
        assert success.mode == "holds"
        tasks = success.figures["by_task"].values()
        assert len(tasks) == 25
        assert all(task["successes"] + task["failures"] >= 40 for task in tasks)


def test_both_maps_in_the_package_are_used_and_are_no_part_of_the_digest(tmp_path: Path) -> None:
    model = get_model("embedded")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        judges = [
            stepscore.get_judge("topreward", model=model, sampling=name) for name in ("spread", "causal")
        ]
    assert all(isinstance(judge, TopReward) and judge.fitted is not None for judge in judges)
    shutil.copytree(FOLDER, tmp_path / "judge")
    for path in (CALIBRATION, CAUSAL_CALIBRATION):
        (tmp_path / "judge" / path.name).unlink()
    without = get_model("embedded", checkpoint=str(tmp_path / "judge"))
    assert without.describe() == model.describe()
