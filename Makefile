# One line each. `make help` lists them; `check` is what CI runs.
PYTHON ?= python3
BIN := .venv/bin

.DEFAULT_GOAL := help
.PHONY: help docs messages setup run test faults browser bench-core bench-ingest bench-apps picture coverage lint format migrations-check check

help:  ## List the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  %-18s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: .venv/dev  ## Make .venv with everything for running, tests and lint

run: .venv/runtime  ## Start Tracebudget here; Ctrl-C ends it
	@$(BIN)/python manage.py up

test: .venv/dev  ## Run all tests; installs Chromium where it may
	@$(BIN)/python -m tests.browser.chromium
	@$(BIN)/python -m pytest

faults: .venv/dev  ## Kill every part under load, many times over, and load for minutes
	@FAULT_ROUNDS=10 LOAD_SECONDS=180 $(BIN)/python -m pytest tests/faults

browser: .venv/dev  ## Run the browser tests alone
	@$(BIN)/python -m pytest -m browser

picture: .venv/dev  ## Take the README's picture anew, from the demo
	@$(BIN)/python -m tests.browser.picture

bench-core: .venv/dev  ## Measure what the analysis of spans costs, and how it grows
	@$(BIN)/python -m tests.bench_core

bench-apps: .venv/dev  ## Measure pages of apps with a million requests, and what their figures cost
	@$(BIN)/python -m pytest -q -s tests/bench_apps.py

bench-ingest: .venv/dev  ## Measure what taking in, storing and analysing spans costs here
	@$(BIN)/python manage.py bench_ingest

docs: .venv/dev  ## Write the rules of docs/findings.md from the code
	@$(BIN)/python -m tests.findings_doc

messages: .venv/dev  ## Take new texts into locale/, and compile it
	@$(BIN)/python -m tests.messages

coverage: .venv/dev  ## Run all tests and tell the branches that none took
	@$(BIN)/coverage run -m pytest && $(BIN)/coverage report

lint: .venv/dev  ## Style and types
	@$(BIN)/ruff check . && $(BIN)/ruff format --check . && $(BIN)/mypy

format: .venv/dev  ## Rewrite the code in the house style
	@$(BIN)/ruff check --fix . && $(BIN)/ruff format .

migrations-check: .venv/dev  ## Fail when a model change lacks its migration; needs no database
	@$(BIN)/python -W ignore::RuntimeWarning manage.py makemigrations --check --dry-run

check: lint migrations-check test  ## Everything that CI runs

.venv/bin/python:
	@$(PYTHON) -c 'import sys; sys.version_info >= (3, 11) or sys.exit("Tracebudget needs Python 3.11 or newer, and $(PYTHON) is " + sys.version.split()[0] + ". Name another: make run PYTHON=python3.12")'
	@$(PYTHON) -m venv .venv

.venv/runtime: requirements.txt | .venv/bin/python
	@$(BIN)/pip install --quiet --disable-pip-version-check -r requirements.txt && touch $@

.venv/dev: requirements-dev.txt .venv/runtime
	@$(BIN)/pip install --quiet --disable-pip-version-check -r requirements-dev.txt && touch $@
