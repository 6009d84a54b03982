"""Shards: a run divided among processes and machines, each with its own journal, and merged at the end."""
