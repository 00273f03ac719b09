PYTHON ?= python3

VENV := .venv
BIN := $(VENV)/bin
RUN := $(BIN)/python
PIP := $(RUN) -m pip install -qq --disable-pip-version-check -c constraints.txt

# A stamp is written last, so an interrupted installation is taken up again by the next make.
VENV_STAMP := $(VENV)/.stamp-venv
DEMO_STAMP := $(VENV)/.stamp-demo
DEV_STAMP := $(VENV)/.stamp-dev
BENCH_STAMP := $(VENV)/.stamp-bench

# pytest keeps the bytecode of what it rewrites, which takes each process five seconds.
unexport PYTHONDONTWRITEBYTECODE

# As many processes as there are cores, 4 at most since each holds torch; tests/conftest.py gives each one thread.
PYTEST := $(RUN) -m pytest -n auto --maxprocesses 4 --dist worksteal

# What an installation compiles.
COMPILED := $(wildcard torchcoreset/transport/*.h torchcoreset/transport/*/*.c torchcoreset/transport/*/*/*.c)

CACHES := .mypy_cache .pytest_cache .ruff_cache

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
# Two goals given to `make -j` would run two pips in one environment.
.NOTPARALLEL:
.PHONY: help demo test test-quick lint format docs docs-check bench bench-page bench-quick clean

help:
	@echo "make demo        a coreset found, certified and drawn, in a minute or two"
	@echo "make test        lint, type check and the whole test suite"
	@echo "make test-quick  the same without the slow tests"
	@echo "make lint        ruff and mypy"
	@echo "make format      let ruff rewrite what it can"
	@echo "make docs        the documentation site, in site/"
	@echo "make docs-check  the same, and a look at every page in a browser, where there is one"
	@echo "make bench       the benchmarks, side by side with the peers, in 30 minutes (bench-quick: in under 2)"
	@echo "make bench-page  the same, and their tables and plots put into docs/benchmarks.md"
	@echo "make clean       remove caches, builds and outputs (rm -r $(VENV) removes the environment)"

demo: $(DEMO_STAMP)
	$(RUN) -m torchcoreset.app.demo --force

test: lint
	$(PYTEST)

test-quick: lint
	$(PYTEST) -m "not slow"

lint: $(DEV_STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: $(DEV_STAMP)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

# Needs no network; the test suite builds the same.
docs: $(DEV_STAMP)
	NO_MKDOCS_2_WARNING=1 $(RUN) -m mkdocs build --strict --quiet
	@echo "open site/index.html"

# Chromium comes from the system's packages; playwright drives it. Without either, links and pictures are checked.
docs-check: docs
	@$(RUN) -c "import playwright" 2>/dev/null || $(PIP) playwright || echo "without playwright"
	$(RUN) docs/check.py site

bench: $(BENCH_STAMP)
	$(RUN) -m tests.benchmarks

bench-page: bench
	$(RUN) -m tests.benchmarks.page
	$(RUN) docs/speed.py

bench-quick: $(BENCH_STAMP)
	$(RUN) -m tests.benchmarks --quick

clean:
	rm -rf build dist site demo_output benchmark_output $(CACHES) *.egg-info
	find . -path ./$(VENV) -prune -o -type d -name __pycache__ -exec rm -rf {} +

# An environment whose pip does not run was interrupted while it was made: make it anew.
$(VENV_STAMP):
	@echo "making the environment ($(VENV))"
	@$(RUN) -m pip --version >/dev/null 2>&1 || $(PYTHON) -m venv --clear $(VENV)
	@touch $@

$(DEMO_STAMP): pyproject.toml constraints.txt $(COMPILED) | $(VENV_STAMP)
	@echo "installing torchcoreset for the demo into $(VENV), about 1 minute the first time"
	@$(PIP) -e '.[demo]'
	@touch $@

# The development environment holds the demo's, so it writes both stamps.
$(DEV_STAMP): pyproject.toml constraints.txt $(COMPILED) | $(VENV_STAMP)
	@echo "installing torchcoreset for development into $(VENV), about 1 minute the first time"
	@$(PIP) -e '.[dev]'
	@touch $(DEMO_STAMP) $@

# A peer that does not install on this machine is left out, and the table says so; the others still run.
$(BENCH_STAMP): pyproject.toml constraints.txt $(DEV_STAMP)
	@echo "installing the peers of the benchmarks into $(VENV), about 1 minute the first time"
	@$(PIP) -e '.[bench]' || for peer in ott-jax k-means-constrained goodpoints kmedoids stein-thinning; do $(PIP) $$peer || echo "without $$peer"; done
	@touch $@
