"""The cost of an audit of the embedded judge, as a multiple of judging the same episodes once, in tokens.

Eight bundled rollouts, audited by every probe. Limits: by default at most ten times the cost of judging once
(``-T full=true`` is printed beside it); no frame is decoded twice at one size (224 pixels for the judge, as recorded
for probes that change pixels); the same video under another instruction reads its own words alone, less than half of
the tokens that judging it takes; truncated videos are read off the curve, and ask for nothing.
"""

from __future__ import annotations

import sys
import tempfile
import warnings
from pathlib import Path

from stepscore.audit import Audit, AuditOptions, audit
from stepscore.cli.judging.demo import ROLLOUTS
from stepscore.episodes import Episode, open_episodes
from stepscore.judges import get_judge
from stepscore.models import get_model
from stepscore.runs import CallOptions, open_run

WORDS = ("~other-instruction", "~opposite-instruction", "~negated", "~paraphrase")


def audited(episodes: list[Episode], folder: Path, *, full: bool) -> Audit:
    """Audit topreward with the embedded model, which answers here under any instruction."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # its calibration map is that of the model with its gate
        judge = get_judge("topreward", model=get_model("embedded", gate=False))
    return audit(
        episodes, judge, folder, AuditOptions(full=full, trivial=False, call_options=CallOptions(cache=False))
    )


def tokens_by_episode(folder: Path) -> dict[str, int]:
    """Return the tokens that each recorded or changed episode took."""
    return {
        row["episode_id"]: row["tokens_in"] + row["tokens_out"]
        for row in open_run(folder / "judge").usage().to_pylist()
    }


def words_share(tokens: dict[str, int]) -> float:
    """Return the tokens for the same video in other words over those for the video itself."""
    changed = [name for name in tokens if any(word in name for word in WORDS) and "~repeated" not in name]
    return sum(tokens[name] for name in changed) / sum(tokens[name.partition("~")[0]] for name in changed)


def main() -> None:
    episodes = list(open_episodes(ROLLOUTS))[::4]
    frames = sum(episode.info.n_frames for episode in episodes if episode.info is not None)
    failed = []

    def check(name: str, value: float, limit: float) -> None:
        bad = value > limit
        failed.extend([name] if bad else [])
        print(f"{name}: {value:.3g} (at most {limit:g}){'  FAILED' if bad else ''}")

    with tempfile.TemporaryDirectory() as made:
        some = audited(episodes, Path(made) / "some", full=False)
        every = audited(episodes, Path(made) / "every", full=True)
        tokens = tokens_by_episode(Path(made) / "every")
    check("cost of an audit over judging once", some.cost, 10.0)
    print(f"cost with -T full=true: {every.cost:.3g}, {len(tokens)} videos of {len(episodes)} episodes")
    check(f"frames decoded with -T full=true, of {frames} recorded at two sizes", every.decoded, 2 * frames)
    check("tokens for other words about a video over those for the video", words_share(tokens), 0.5)
    check("truncated videos that were judged", sum("~cut" in name for name in tokens), 0)
    if failed:
        sys.exit(f"Failed: {', '.join(failed)}")


if __name__ == "__main__":
    main()
