"""Whether two trees of this project compute the same numbers, byte for byte; see ``__main__.py``."""
