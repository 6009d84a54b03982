"""A row of a board: its numbers, its file, and the figures of others that stand beside it."""
