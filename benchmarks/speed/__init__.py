"""Time, memory and size, each against a limit: exit code 1 beyond it."""
