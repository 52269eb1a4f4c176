# Everything a person runs. Each target sets up what it needs; a second set-up is free.
.DEFAULT_GOAL := help
.PHONY: help setup setup-tests serve test test-long lint lock clean

VENV ?= .venv
TORCH_CPU_INDEX ?= https://download.pytorch.org/whl/cpu
ARGS ?=
export VENV TORCH_CPU_INDEX PYTHON DEVICE

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-10s %s\n", $$1, $$2}' Makefile
	@echo
	@echo "  ARGS='...'          passed on to jevserve serve, or to pytest"
	@echo "  PYTHON=python3.12   interpreter to set up with (3.11, 3.12 or 3.13)"
	@echo "  DEVICE=cpu|gpu      instead of looking for an NVIDIA GPU"

setup: ## make or refresh the virtual environment
	@scripts/setup

serve: setup ## set up what is missing, then serve decisions
	@$(VENV)/bin/jevserve serve $(ARGS)

test: setup-tests ## lint, then every test but the long ones
	@scripts/lint
	@$(VENV)/bin/python -m pytest -m "not long" $(ARGS)

test-long: setup-tests ## the tests that take minutes
	@$(VENV)/bin/python -m pytest -m long $(ARGS)

# What tests need beside the environment: clients of the field, and a browser.
setup-tests: setup
	@scripts/setup-clients
	@scripts/setup-browser

lint: setup ## ruff and mypy
	@scripts/lint

lock: setup ## remake requirements/*.txt from pyproject.toml
	@scripts/lock $(ARGS)

clean: ## remove the environment and every cache
	rm -rf $(VENV) build dist *.egg-info stubs/*/build stubs/*/*.egg-info
	rm -rf .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find jevserve tests stubs -name __pycache__ -type d -prune -exec rm -rf {} +
