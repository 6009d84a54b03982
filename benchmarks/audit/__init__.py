"""Measurements of the audit itself, and of judges by it."""
