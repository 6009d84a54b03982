"""Goal images of episodes: one file for all, one image a task, or the last frame of a labelled success."""
