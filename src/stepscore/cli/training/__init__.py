"""Commands that train, or make weights to train with."""
