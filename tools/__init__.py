"""What builds the project's own pages; not part of the package."""
