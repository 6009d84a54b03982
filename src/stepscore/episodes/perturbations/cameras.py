"""Episodes whose cameras are black or exchanged."""

from __future__ import annotations

from dataclasses import replace

from stepscore.episodes.episode import Episode
from stepscore.episodes.perturbations.changed_episode import main_view_of, marked, with_images
from stepscore.episodes.perturbations.image_perturbations import Blank
from stepscore.errors import OptionError


def blank(episode: Episode, view: str | None = None) -> Episode:
    """Make every image of a view black; of all views, where none is named.

    Labels are kept: the scene is what it was. Where all views are black nobody can see it, and a judge that still
    finds progress or success does not look.
    """
    if view is not None:
        episode.view(view)  # its error lists the valid names
    return with_images(episode, Blank(), "blank", {"view": view}, view or "", only=view)


def swap_cameras(episode: Episode) -> Episode:
    """Give every camera's name to the next camera's images; an episode of one camera is an OptionError."""
    main_view_of(episode)
    names = list(episode.views)
    if len(names) < 2:
        raise OptionError(f"Episode {episode.id} has one camera; two or more can be swapped.")
    views = {name: episode.views[other] for name, other in zip(names, [*names[1:], names[0]], strict=True)}
    return replace(marked(episode, "swapped-cameras", {}, ""), views=views)
