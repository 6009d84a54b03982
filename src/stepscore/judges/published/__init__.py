"""Judges that ask published reward models as they were published; one judge a file.

Next to each judge (``vlac.py``) are its profile (``vlac.yaml``: how the model is asked and read) and our own wording
of its prompts (``own_vlac_compare.txt``). Published wording is fetched on first use (``profiles``).
"""
