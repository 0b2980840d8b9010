# Everything runs from .venv, which these targets make and keep up to date. Needs Python 3.11+, git and make.
#
#   LITE=1       `make demo` without torch and the reward models
#   TORCH_ARGS   extra arguments of pip for torch, for example an index with CPU-only wheels
#   DEMO_ARGS    extra arguments of `tangram demo`
#   TEST_ARGS    extra arguments of pytest
#   MESSAGES     damaged messages of `make fuzz`
#   SEED         of `make fuzz`

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
TORCH := torch==2.13.0

# uv keeps to uv.lock. It never installs torch (it would take the CUDA build) and, with --inexact, never removes it.
SYNC := UV_PROJECT_ENVIRONMENT=$(VENV) $(BIN)/uv sync --inexact --frozen --no-default-groups --extra docker --extra demo

.DEFAULT_GOAL := help
.PHONY: help setup demo test lint bench fuzz

help: ## list the targets
	@sed -n 's/^\([a-z]*\):.*## \(.*\)/  make \1	\2/p' Makefile

setup: $(VENV)/.stamp-full $(VENV)/.stamp-dev ## install everything into .venv

demo: $(VENV)/.stamp-$(if $(LITE),lite,full) ## run the main job for real and print a report (LITE=1: without torch)
	@$(BIN)/tangram demo $(if $(LITE),--lite) $(DEMO_ARGS)

test: setup ## run all tests; what the machine lacks is skipped with a reason, with CI=true it fails
	@$(BIN)/pytest $(TEST_ARGS)

lint: $(VENV)/.stamp-dev ## check style, types, layers and the lock file
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/uv lock --check

bench: setup ## measure every claim; fails if one does not hold
	@failed=; for name in $$($(BIN)/python -m benchmarks | cut -d' ' -f1); do \
		$(BIN)/python -m benchmarks $$name --json || failed="$$failed $$name"; \
	done; test -z "$$failed" || { echo "not held:$$failed"; exit 1; }

fuzz: setup ## put damaged messages on the admission list of a real deployment (MESSAGES, SEED)
	@$(BIN)/pytest tests/chaos/test_fuzz.py --timeout 0 --messages $(or $(MESSAGES),100000) $(if $(SEED),--seed $(SEED))

$(VENV)/.stamp-uv:
	@echo "== making $(VENV)"
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "error: Python 3.11 or newer is needed: make PYTHON=python3.12")'
	@$(PYTHON) -m venv $(VENV)
	@$(BIN)/pip install uv
	@touch $@

$(VENV)/.stamp-torch: | $(VENV)/.stamp-uv
	@echo "== installing $(TORCH) (large)"
	@$(BIN)/pip install $(TORCH) $(TORCH_ARGS)
	@touch $@

$(VENV)/.stamp-lite: pyproject.toml uv.lock | $(VENV)/.stamp-uv
	@echo "== installing tangram"
	@$(SYNC)
	@touch $@

$(VENV)/.stamp-full: pyproject.toml uv.lock $(VENV)/.stamp-torch
	@echo "== installing tangram and the reward models"
	@$(SYNC) --extra rewards
	@touch $@ $(VENV)/.stamp-lite

$(VENV)/.stamp-dev: pyproject.toml uv.lock $(VENV)/.stamp-full
	@echo "== installing the development tools"
	@$(SYNC) --extra rewards --extra monitoring --extra tracing --group dev
	@touch $@
