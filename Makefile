# `make demo` and `make test` set up everything they need.

PYTHON ?= python3
BIN := .venv/bin
# Newer than pyproject.toml and constraints.txt when .venv is up to date.
STAMP := .venv/.installed

export HF_HUB_OFFLINE := 1
export TOKENIZERS_PARALLELISM := false
export POT_BACKEND_DISABLE_TENSORFLOW := 1
export POT_BACKEND_DISABLE_JAX := 1
export RAY_USAGE_STATS_ENABLED := 0

.PHONY: help install demo test test-all test-python test-lowest check bench docs docs-figures clean distclean

help:
	@echo 'make install    make .venv with everything pinned in constraints.txt'
	@echo 'make demo       score the example corpus into scores/ladder'
	@echo 'make test       the quick tests'
	@echo 'make test-all   the slow tests too'
	@echo 'make test-python PYTHON=python3.13  the core of the tests with another Python'
	@echo 'make test-lowest  the core of the tests with the lowest versions that are allowed'
	@echo 'make check      lint, format, types, import layers'
	@echo 'make bench      list the benchmarks'
	@echo 'make docs       build the guide, build/docs/index.html'
	@echo 'make docs-figures  draw the pictures of the documents again'
	@echo 'make clean      remove caches and the demo scores (distclean: .venv too)'

install: $(STAMP)
	@:

$(STAMP): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || { \
	  echo 'assay needs Python 3.11 or newer as `$(PYTHON)`; name one, for example: make install PYTHON=python3.12' >&2; \
	  exit 1; }
	@echo 'Installing into .venv (a few minutes the first time)' >&2
	@$(PYTHON) -m venv .venv
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	@touch $@

demo: install
	$(BIN)/assay score examples/quality_ladder.jsonl --out scores/ladder --fresh

# As many processes as cores; each test runs whole in one of them.
test: install
	$(BIN)/pytest -q -n logical --dist worksteal

# The last -m wins over the one in pyproject.toml.
test-all: install
	$(BIN)/pytest -q -m ''

# What there is to compute, without Ray, browsers and optional encoders.
CORE := agreement sms cluster reffree/ tests/sms tests/cluster tests/reffree tests/pipelines/cli/test_app.py \
  tests/pipelines/test_score.py tests/agreement tests/pipelines/correlation \
  tests/torture/test_poison.py tests/torture/test_failing_stores.py

define test_core
$(PYTHON) -m venv $(1)
$(1)/bin/python -m pip install --quiet --disable-pip-version-check -c $(2) -e '.[dev]'
$(1)/bin/pytest -q -n logical --dist worksteal -m 'not slow and not ray and not browser' $(CORE)
endef

test-python:
	$(call test_core,.venv-$(notdir $(PYTHON)),constraints.txt)

# With Python 3.11 or 3.12: numba and numpy of that time know no later one.
test-lowest:
	$(call test_core,.venv-lowest,constraints-lowest.txt)

check: install
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

bench:
	@echo "Once: $(BIN)/pip install -c constraints.txt -e '.[bench]'. Then $(BIN)/python FILE, where FILE is"
	@for file in benchmarks/*.py; do \
	  if [ -f "$$file" ]; then printf '%-36s %s\n' "$$file" "$$(sed -n '1s/"""//gp' "$$file")"; fi; \
	done

# A warning is an error: a link that leads nowhere, a page that no other names.
docs: install
	$(BIN)/sphinx-build --quiet --fail-on-warning --keep-going docs build/docs

docs-figures: install
	@mkdir -p docs/figures
	$(BIN)/assay explain examples/quality_ladder.jsonl --document harbour-bridge --system good \
	  --metric s+wms --out docs/figures/explain.svg
	rm -rf build/figures
	$(BIN)/assay score examples/quality_ladder.jsonl --out build/figures/scores --quiet \
	  --metrics sms,wms,s+wms,cosine,rouge2,rougeL,bleu,length
	$(BIN)/assay correlate build/figures/scores --ratings pipelines/examples/written_quality.csv \
	  --levels summary,system --coefficients kendall_b --out build/figures/report --quiet
	$(BIN)/python docs/_ext/pictures.py build/figures/report/report.html docs/figures/verdict.png body 400

clean:
	rm -rf build *.egg-info scores/ladder
	rm -rf .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis
	find agreement sms reffree reinforce cluster pipelines tests benchmarks -name __pycache__ -prune -exec rm -rf {} +

distclean: clean
	rm -rf .venv
