"""Tables and images of the docs."""
