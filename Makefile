# Everything sets itself up: `make demo` and `make test` work in a fresh clone with nothing but Python there.

PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
ARGS   ?=
JOBS   ?= 2

.DEFAULT_GOAL := help
.PHONY: help demo check format test test-slow bench bench-quick soak parts lock clean

help:  ## This list
	@awk -F':.*## ' '/^[a-z-]+:.*## /{printf "  make %-11s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

$(BIN)/mooring: pyproject.toml src/mooring/__init__.py
	@$(PYTHON) -c 'import sys; sys.exit(0 if sys.version_info >= (3, 11) else "Mooring needs Python 3.11 or newer; this is " + sys.version.split()[0] + ". Try: make demo PYTHON=python3.12")'
	@echo "Setting up $(VENV) …"
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable .
	@touch $(BIN)/mooring

$(VENV)/.dev: $(BIN)/mooring requirements-dev.lock
	@echo "Installing what development needs …"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --requirement requirements-dev.lock
	@touch $@

demo: $(BIN)/mooring  ## See it work: a call, a crash, the same session again
	@$(BIN)/python -m mooring.demo.tour

format: $(VENV)/.dev  ## Format the code and fix what can be fixed
	@$(BIN)/ruff format .
	@$(BIN)/ruff check --fix .

check: $(VENV)/.dev  ## Format, lint, strict types, import layers
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache

parts: $(VENV)/.dev  ## Install the real clients, servers and the conformance suite that tests use
	@$(BIN)/python -m tests.parts

test: $(VENV)/.dev parts  ## All tests but the long repetitions
	$(BIN)/python -m pytest -m "not slow" -n $(JOBS) --no-loadscope-reorder $(ARGS)

test-slow: $(VENV)/.dev parts  ## The long repetitions
	$(BIN)/python -m pytest -m slow --timeout 3600 $(ARGS)

bench: $(VENV)/.dev  ## Measure Mooring beside other proxies, which it installs into .bench (15 minutes)
	@$(BIN)/python -m bench $(ARGS)

bench-quick: $(VENV)/.dev  ## Measure Mooring alone, for daily use (2 minutes)
	@$(BIN)/python -m bench --quick $(ARGS)

soak: $(VENV)/.dev  ## Half an hour of everything at once: does anything grow?
	@$(BIN)/python -m tests.soak $(ARGS)

lock: $(VENV)/.dev  ## Renew requirements-dev.lock from pyproject.toml
	@$(BIN)/python -m pip install --quiet uv
	@$(BIN)/uv pip compile --quiet --universal --no-header --no-emit-index-url --group dev pyproject.toml -o requirements-dev.lock

clean:  ## Remove everything that set-up made
	rm -rf $(VENV) .parts .bench .soak .mypy_cache .ruff_cache .pytest_cache .coverage* htmlcov
