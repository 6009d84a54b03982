"""A small Qwen3-VL in NumPy: the runtime of ``embedded``, with core dependencies only."""
