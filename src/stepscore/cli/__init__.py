"""The command line: one module a command, with no logic beyond parsing, calling and printing.

Results go to stdout, progress and messages to stderr. Exit codes: 0 all well, 1 some episodes could not be
read or judged, 2 nothing could be done.
"""
