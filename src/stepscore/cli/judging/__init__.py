"""Commands that judge, and fit or choose how to judge."""
