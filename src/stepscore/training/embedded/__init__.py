"""Building the embedded judge from nothing: its tasks, its simulated datasets, its training runs."""
