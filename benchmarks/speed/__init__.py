"""What things cost, each against a limit: exit code 1 above it."""
