"""Commands about episodes, before any is judged."""
