# `make demo` and `make test` need nothing but Python 3.11+ and make: each sets up an environment of its own first.
PYTHON ?= python3
SCRIPTS := $(if $(filter Windows_NT,$(OS)),Scripts,bin)
VENV := .venv
BIN := $(VENV)/$(SCRIPTS)
READY := $(VENV)/.ready
DEMO_VENV := .venv-demo
DEMO_BIN := $(DEMO_VENV)/$(SCRIPTS)
DEMO_READY := $(DEMO_VENV)/.ready
CORE_VENV := .venv-core
CORE_BIN := $(CORE_VENV)/$(SCRIPTS)
CORE_READY := $(CORE_VENV)/.ready
DOCS_VENV := .venv-docs
DOCS_BIN := $(DOCS_VENV)/$(SCRIPTS)
DOCS_READY := $(DOCS_VENV)/.ready
VLLM_VENV := .venv-vllm
VLLM_BIN := $(VLLM_VENV)/$(SCRIPTS)
VLLM_READY := $(VLLM_VENV)/.ready
JOBS ?= 2
PIP := -m pip install --quiet --disable-pip-version-check
NEW_ENOUGH := $(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "StepScore needs Python 3.11 or newer: make PYTHON=/path/to/python3.11 $(MAKECMDGOALS)"; exit 1; }

.PHONY: demo test test-core test-web test-vllm lint docs bench dist clean

# The core alone: no torch, no test tools, no Debian package.
demo: $(DEMO_READY)
	$(DEMO_BIN)/stepscore demo

# The browser's tests come first and by themselves: two browsers starve each other's video.
test: $(READY) lint test-web
	$(BIN)/python -m pytest -n $(JOBS) --dist worksteal -q --ignore tests/web --ignore tests/vllm

# Without any extra, in an environment of its own: what a plain `pip install stepscore` must be able to do.
test-core: $(CORE_READY)
	$(CORE_BIN)/python -m pytest --core -n $(JOBS) --dist worksteal -q

test-web: $(READY)
	$(BIN)/python -m pytest tests/web -q --timeout 180

# A real vLLM on this machine's CPU: some minutes and 3.5 GB to install, once, in an environment of its own.
test-vllm: $(READY) $(VLLM_READY)
	$(BIN)/python -m pytest tests/vllm --vllm $(VLLM_BIN)/python -q -s

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/typos

# The site, into site/: strict, every link followed, nothing from another host.
docs: $(DOCS_READY)
	$(DOCS_BIN)/python -m tools.docs

bench: $(READY)
	$(BIN)/python -m benchmarks.run

# A wheel and an sdist, checked; the wheel is installed by itself, with nothing cached, and runs demo and report.
dist: $(READY)
	rm -rf dist build
	$(BIN)/python -m build
	$(BIN)/python -m twine check --strict dist/*
	$(BIN)/python -m pytest -q -s tests/wheel --wheel dist/*.whl

$(READY): pyproject.toml constraints.txt
	@$(NEW_ENOUGH)
	$(PYTHON) -m venv $(VENV)
	@# torch first, at the pinned release: left to another package, pip may take a build with gigabytes of CUDA.
	$(BIN)/python $(PIP) "$$(grep '^torch==' constraints.txt)"
	$(BIN)/python $(PIP) --constraint constraints.txt --editable '.[dev]'
	@missing=; $(PYTHON) -c 'import sys; from ctypes.util import find_library; sys.exit(find_library("OSMesa") is None)' || missing="libosmesa6"; \
	command -v chromium >/dev/null || missing="$$missing chromium"; \
	command -v npm >/dev/null || missing="$$missing nodejs npm"; \
	if [ -n "$$missing" ]; then \
	  if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then apt-get update -qq && apt-get install -y -qq --no-install-recommends $$missing; \
	  else echo "The simulator draws with OSMesa, tests of the page use Chromium and npm. To have all: sudo apt-get install $$missing"; fi; fi
	@touch $@

$(DEMO_READY): pyproject.toml constraints.txt
	@$(NEW_ENOUGH)
	$(PYTHON) -m venv $(DEMO_VENV)
	$(DEMO_BIN)/python $(PIP) --constraint constraints.txt --editable .
	@touch $@

$(CORE_READY): pyproject.toml constraints.txt
	@$(NEW_ENOUGH)
	$(PYTHON) -m venv $(CORE_VENV)
	$(CORE_BIN)/python $(PIP) --constraint constraints.txt --editable '.[test]'
	@touch $@

$(DOCS_READY): pyproject.toml constraints.txt
	@$(NEW_ENOUGH)
	$(PYTHON) -m venv $(DOCS_VENV)
	$(DOCS_BIN)/python $(PIP) --constraint constraints.txt --editable '.[docs]'
	@touch $@

$(VLLM_READY): tools/install_vllm.py
	@$(NEW_ENOUGH)
	$(PYTHON) -m venv $(VLLM_VENV)
	$(VLLM_BIN)/python tools/install_vllm.py
	@touch $@

clean:
	rm -rf $(VENV) $(DEMO_VENV) $(CORE_VENV) $(DOCS_VENV) $(VLLM_VENV) demo dist build site .mypy_cache .ruff_cache .pytest_cache .hypothesis
