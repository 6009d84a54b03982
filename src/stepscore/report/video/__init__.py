"""Episodes as videos and contact sheets."""
