"""Many episodes, many machines: what they take."""
