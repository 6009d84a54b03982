"""The board of judges: its benchmark, its rows, and the page of the docs that shows it."""
