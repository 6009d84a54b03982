"""Training of judges on labelled episodes: a vision-language model, SARM, and the embedded judge with its gate."""
