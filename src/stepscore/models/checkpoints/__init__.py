"""Checkpoint folders from anywhere: what is checked before a network is built, and a digest of every byte."""
