"""Judges that ask published reward models as they were published; see ``models/profiles`` and one judge a file."""
