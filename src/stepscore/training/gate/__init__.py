"""Training the embedded judge's domain gate, and evaluating it."""
