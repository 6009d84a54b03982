"""Shards: a run divided among processes and machines, each with a journal of its own, and merged at the end."""
