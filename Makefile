# Start with `make results`. Each target sets up the environment if necessary.
PYTHON ?= python3
CORES ?= all
# Use another config: make results CONFIG=config/paper.yaml
CONFIG ?=
# More options for snakemake or pytest: make results ARGS=--dry-run
ARGS ?=

VENV := .venv
READY := $(VENV)/.ready
export PATH := $(CURDIR)/$(VENV)/bin:$(PATH)

.DEFAULT_GOAL := help
.PHONY: help results test lint bench clean

help: ## show this list
	@awk -F ':.*## ' '/^[a-z]+:.*## / {printf "  make %-9s %s\n", $$1, $$2}' $(firstword $(MAKEFILE_LIST))
	@echo "  Variables: CONFIG=config/paper.yaml  CORES=4  ARGS=--dry-run  PYTHON=python3.12"

results: $(READY) ## make all results of a config; the report is results/<name>/report.html
	@test -z "$(CONFIG)" || test -f "$(CONFIG)" || { echo "error: no such config file: $(CONFIG)" >&2; exit 1; }
	snakemake --cores $(CORES) $(if $(CONFIG),--configfile=$(CONFIG)) $(ARGS)

test: $(READY) ## run all tests
	python -m pytest $(ARGS)

lint: $(READY) ## check style and types
	ruff check .
	ruff format --check .
	mypy
	snakefmt --check Snakefile workflow

bench: $(READY) ## measure the cost of recording and probes, and the speed relative to Hugging Face's Llama
	python bench/run.py
	python bench/initialization.py

clean: ## remove caches and the environment, but keep results
	rm -rf $(VENV) build src/*.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -not -path './results/*' -prune -exec rm -rf {} +

$(READY): pyproject.toml requirements.lock
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "error: this needs Python 3.11 or newer; choose one: make PYTHON=python3.12" >&2; exit 1; }
	@echo "Setting up $(VENV); this takes a few minutes"
	@$(PYTHON) -m venv $(VENV)
	@$(VENV)/bin/python -m pip install --quiet --disable-pip-version-check -r requirements.lock
	@$(VENV)/bin/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	@touch $@
