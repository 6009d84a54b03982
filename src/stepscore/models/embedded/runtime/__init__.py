"""A small Qwen3-VL in NumPy: the runtime of ``embedded``, on core dependencies alone."""
