"""Does weighting demonstrations by a judge's progress make a better policy? See README.md."""
