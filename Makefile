# Two commands for people: `make demo` and `make test`. Each makes .venv and installs what it needs.
PYTHON ?= python3
VENV := .venv
RUN := $(VENV)/bin/
export PIP_DISABLE_PIP_VERSION_CHECK := 1

.PHONY: demo test lint test-fast test-slow bench pictures clean
.DELETE_ON_ERROR:

demo: $(VENV)/installed
	$(RUN)mfm demo

# All that a change must pass: style, types, layers, and every test but the long proofs.
test: lint
	$(RUN)python -m pytest -m "not slow"

lint: $(VENV)/installed
	$(RUN)ruff check .
	$(RUN)ruff format --check .
	$(RUN)mypy
	$(RUN)lint-imports

# What needs no MindSpore: seconds, for use while working.
test-fast: $(VENV)/installed
	$(RUN)python -m pytest

# The long proofs: kills at random moments, resumes at every step, millions of damaged headers. Those that use Ray in a
# process of their own: Ray and MindSpore cannot both be imported into one, each needs its own protobuf.
test-slow: $(VENV)/installed
	$(RUN)pip install --quiet --editable ".[ray,redis]"
	$(RUN)python -m pytest -m slow tests/execution tests/corpus
	$(RUN)python -m pytest -m slow --ignore=tests/execution --ignore=tests/corpus

# Each prints a table of ratios against a peer or a ceiling measured in the same run.
bench: $(VENV)/installed
	for script in benchmarks/*.py; do $(RUN)python $$script || exit 1; done

# Draws the pictures of the guides anew, with Chromium.
pictures: $(VENV)/installed
	MFM_DRAW_PICTURES=1 $(RUN)python -m pytest -m browser tests/report/test_pictures.py

$(VENV)/installed: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(RUN)pip install --quiet --editable ".[train,fast,tokenizer,corpus,report,dev]"
	touch $@

clean:
	rm -rf $(VENV) build dist *.egg-info
