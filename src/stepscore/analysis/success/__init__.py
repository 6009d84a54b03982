"""Success by judge: the verdict that an episode's judgement gives, and the success map that calibrates it."""
