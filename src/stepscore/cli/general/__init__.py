"""The demo, listings and the call cache."""
