"""Records of evaluation harnesses: the SQLite files of vla-eval and the logs of inspect-robots."""
