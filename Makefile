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
LEROBOT_PYTHON ?= python3.12
LEROBOT_VENV := .venv-lerobot
LEROBOT_BIN := $(LEROBOT_VENV)/$(SCRIPTS)
LEROBOT_READY := $(LEROBOT_VENV)/.ready
INSPECT_ROBOTS := .plugins/inspect-robots
JOBS ?= 2
PIP := -m pip install --quiet --disable-pip-version-check
NEW_ENOUGH := $(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "StepScore needs Python 3.11 or newer: make PYTHON=/path/to/python3.11 $(MAKECMDGOALS)"; exit 1; }

.PHONY: demo test test-core test-web test-vllm test-lerobot test-inspect-robots lint docs bench dist clean

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

# The reward model inside LeRobot 0.6.1, which needs Python 3.12 and some gigabytes, in an environment of its own.
test-lerobot: $(LEROBOT_READY)
	$(LEROBOT_BIN)/python -m pytest plugins/lerobot/tests -q

# The grader inside inspect-robots, which needs numpy alone.
test-inspect-robots: $(READY)
	$(BIN)/python $(PIP) --no-deps --upgrade --target $(INSPECT_ROBOTS) inspect-robots==0.60.0
	PYTHONPATH=$(INSPECT_ROBOTS) $(BIN)/python -m pytest tests/plugins -q

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

$(LEROBOT_READY): pyproject.toml plugins/lerobot/pyproject.toml
	$(LEROBOT_PYTHON) -m venv $(LEROBOT_VENV)
	$(LEROBOT_BIN)/python $(PIP) 'lerobot==0.6.1' pytest --editable . --editable plugins/lerobot
	@touch $@

clean:
	rm -rf $(LEROBOT_VENV) .plugins $(VENV) $(DEMO_VENV) $(CORE_VENV) $(DOCS_VENV) $(VLLM_VENV) demo dist build site .mypy_cache .ruff_cache .pytest_cache .hypothesis
