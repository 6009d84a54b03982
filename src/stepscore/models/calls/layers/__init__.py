"""The layers of the call chain, one a module; ``chain.py`` puts them together."""
