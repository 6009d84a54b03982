"""How long work shows how far it is: what library functions call, and the command line draws."""

from stepscore._watching.watch import Watch, doing, unwatched

__all__ = ["Watch", "doing", "unwatched"]
