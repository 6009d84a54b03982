"""How judges are trained.

A model learns to answer what the judges ask: the real judge is run on labelled episodes, and the labels say
what the right answer to each of its questions is.
"""
