"""The figures of the embedded judge, a file for each group."""
