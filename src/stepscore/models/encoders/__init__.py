"""Encoders of images and texts, and the similarity of what they encode."""
