"""Checkpoint folders from anywhere: what is checked before a network is built, and a digest of every byte."""

from stepscore.models.checkpoints.chat_template import chat_template_of

__all__ = ["chat_template_of"]
