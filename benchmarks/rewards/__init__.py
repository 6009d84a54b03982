"""The reward server under load, and the time of a frame that is added to a live session."""
