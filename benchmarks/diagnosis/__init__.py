"""What happened in an episode: the simulator's own answer, and how often the diagnosis gives the same one."""
