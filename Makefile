# `make demo` and `make test` need nothing but Python 3.11+ and make: each sets up .venv first.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
JOBS ?= 2

.PHONY: demo test test-web lint bench clean

demo: $(READY)
	$(BIN)/stepscore demo

# The browser's tests come first and by themselves: two browsers starve each other's video.
test: $(READY) lint test-web
	$(BIN)/python -m pytest -n $(JOBS) --dist worksteal -q --ignore tests/web

test-web: $(READY)
	$(BIN)/python -m pytest tests/web -q --timeout 180

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

bench: $(READY)
	$(BIN)/python -m benchmarks.run

$(READY): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "StepScore needs Python 3.11 or newer: make PYTHON=/path/to/python3.11 $(MAKECMDGOALS)"; exit 1; }
	$(PYTHON) -m venv $(VENV)
	@# torch first, at the pinned release: left to another package, pip may take a build with gigabytes of CUDA.
	$(BIN)/python -m pip install --quiet --disable-pip-version-check "$$(grep '^torch==' constraints.txt)"
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[dev]'
	@missing=; $(PYTHON) -c 'import sys; from ctypes.util import find_library; sys.exit(find_library("OSMesa") is None)' || missing="libosmesa6"; \
	command -v chromium >/dev/null || missing="$$missing chromium"; \
	command -v npm >/dev/null || missing="$$missing nodejs npm"; \
	if [ -n "$$missing" ]; then \
	  if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then apt-get update -qq && apt-get install -y -qq --no-install-recommends $$missing; \
	  else echo "The simulator draws with OSMesa, tests of the page use Chromium and npm. To have all: sudo apt-get install $$missing"; fi; fi
	@touch $@

clean:
	rm -rf $(VENV) demo .mypy_cache .ruff_cache .pytest_cache .hypothesis
