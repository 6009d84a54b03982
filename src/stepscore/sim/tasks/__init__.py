"""The simulated tasks: instructions, milestones, distances and stages."""
