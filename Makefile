# Every target starts from a plain Python with pip and creates .venv if needed. `make clean` removes it.

PYTHON   ?= python3
EXTRAS   ?= dev
JOBS     ?= auto
COVERAGE ?= 0

VENV  := .venv
BIN   := $(VENV)/bin
comma := ,
# One stamp per set of extras: .venv/.installed-dev-tets. It is written last, so an interrupted install leaves none.
stamp  = $(VENV)/.installed-$(subst $(comma),-,$(1))
READY := $(call stamp,$(EXTRAS))
PEERS := $(call stamp,$(EXTRAS)$(if $(findstring bench,$(EXTRAS)),,$(comma)bench))
SITE  := $(call stamp,$(EXTRAS)$(if $(findstring docs,$(EXTRAS)),,$(comma)docs))
DIST  := $(call stamp,$(EXTRAS)$(if $(findstring release,$(EXTRAS)),,$(comma)release))
COVER := $(if $(filter 1,$(COVERAGE)),--cov=gradsim --cov-report=term:skip-covered)

export PIP_DISABLE_PIP_VERSION_CHECK := 1

.DEFAULT_GOAL := help
.PHONY: help demo test bench fuzz kills soak docs docs-serve dist clean

help: ## Show this list
	@echo "gradsim: differentiable simulation from pixels to physics and back"
	@echo
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-10s %s\n", $$1, $$2}' $(MAKEFILE_LIST)
	@echo
	@echo "  PYTHON=python3.11      the Python that creates $(VENV)"
	@echo "  EXTRAS=dev,tets,bench  the extras to install (here: $(EXTRAS))"
	@echo "  JOBS=2                 test processes (here: $(JOBS))"
	@echo "  COVERAGE=1             measure and print the coverage of the tests"

demo: $(READY) ## Render a bouncing cube, estimate its physics from the video: out/report.html
	@$(BIN)/gradsim demo

test: $(READY) ## Check style, vocabulary, types and layers; run the tests
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/python tools/check_vocabulary.py
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo
	OMP_NUM_THREADS=1 $(BIN)/pytest -n $(JOBS) --maxprocesses 4 --dist loadfile $(COVER)  # one core per process

bench: $(PEERS) ## Run all benchmarks with their peers, write benchmarks/results.md and results.json
	@$(BIN)/python -m benchmarks all

docs: $(SITE) ## Build the documentation site, strictly: build/site/index.html
	$(BIN)/mkdocs build --strict --quiet
	@echo build/site/index.html

docs-serve: $(SITE) ## Show the documentation site while it is edited: http://127.0.0.1:8000
	$(BIN)/mkdocs serve

dist: $(DIST) ## Build wheel and sdist, check them, install the wheel in an empty environment and run the demo there
	$(BIN)/python tools/make_dist.py

fuzz: $(READY) ## Try 10,000 odd, hostile and damaged inputs (out/fuzz), then the native code with sanitizers
	OMP_NUM_THREADS=1 $(BIN)/python tools/fuzz.py
	$(BIN)/python tools/sanitize.py

kills: $(READY) ## Kill long commands 200 times; their files must be whole, and equal in the end
	$(BIN)/python tools/kill_runs.py

soak: $(READY) ## Work for an hour in one process; memory must stay flat: out/soak.md
	OMP_NUM_THREADS=1 $(BIN)/python tools/soak.py

clean: ## Remove .venv, caches and build products
	rm -rf $(VENV) build dist src/*.egg-info .mypy_cache .pytest_cache .ruff_cache .import_linter_cache .coverage
	find src tests examples benchmarks tools -type d -name __pycache__ -prune -exec rm -rf {} + 2>/dev/null || true

# venv runs whenever the stamp is stale: it completes an interrupted environment and does not change a complete one.
$(VENV)/.installed-%: pyproject.toml constraints.txt src/gradsim/_version.py
	@echo "Installing gradsim[$(subst -,$(comma),$*)] into $(VENV); the first time this takes a few minutes"
	@rm -f $@
	@$(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet -c constraints.txt -e ".[$(subst -,$(comma),$*)]"
	@touch $@
