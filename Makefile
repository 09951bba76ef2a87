# Everything that people and CI do here. `make` alone lists the targets. Each target sets up what it
# needs: Python >= 3.11 and make are enough, and nothing outside this folder is changed.

# A path or name of a Python >= 3.11; empty: the first one found.
PYTHON ?=
# What `make run` shows: empty, --studio, --fleet or --json.
DEMO ?=
# More options for `uv pip compile`: `make lock LOCK_FLAGS=--upgrade` takes the newest versions.
LOCK_FLAGS ?=

VENV := .venv
BENCH_VENV := .venv-bench
PROOF_VENV := .venv-proof
BIN := $(VENV)/bin
BENCH_LOCK := tests/benchmarks/requirements.lock
PROOF_LOCK := tests/proof/requirements.lock
SPHINX := $(BIN)/python -m sphinx -W --keep-going -q -b html docs docs/_build/html

# uv ships its own certificates; a machine behind a proxy has the proxy's among the system's.
export UV_SYSTEM_CERTS ?= 1
export UV_NO_PROGRESS ?= 1
# Compiled once, not by each of the hundred processes that the tests start.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help setup run quick test coverage check format bench proof node ray docs release lock clean

# A virtual environment works only where it was made: a copied or moved one is made anew.
forget_unless_usable = $(shell [ -x $(1)/bin/python ] && [ "$$(cat $(1)/.place 2>/dev/null)" = "$$(pwd -P)" ] || rm -f $(1)/.synced)
$(call forget_unless_usable,$(VENV))
$(call forget_unless_usable,$(BENCH_VENV))
$(call forget_unless_usable,$(PROOF_VENV))

# $(call sync,<virtual environment>,<lock>): sets $$python and $$uv, makes the virtual environment,
# fetches uv if it is missing, installs exactly what the lock names and then this project.
# `--without-pip`, because Debian's Python has no ensurepip. When uv cannot reach the registry, pip
# may: its settings are its own. The lock on this file keeps two `make` apart.
define sync
	@set -eu; venv=$(1); lock=$(2); python=; \
	if command -v flock >/dev/null; then exec 9<Makefile; flock 9; fi; \
	if [ "$$venv/.synced" -nt "$$lock" ] && [ "$$venv/.synced" -nt pyproject.toml ]; then exit 0; fi; \
	for candidate in $(if $(PYTHON),"$(PYTHON)",python3.11 python3.13 python3.12 python3); do \
	    if "$$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then \
	        python=$$candidate; break; \
	    fi; \
	done; \
	if [ -z "$$python" ]; then \
	    echo "make: no Python >= 3.11 found; install one, or name it: make PYTHON=/path/to/python3" >&2; \
	    exit 1; \
	fi; \
	if ! "$$venv/bin/python" -c '' 2>/dev/null || [ "$$(cat "$$venv/.place" 2>/dev/null)" != "$$(pwd -P)" ]; then \
	    echo "Creating $$venv with $$("$$python" --version)"; \
	    "$$python" -m venv --clear --without-pip "$$venv"; \
	    pwd -P > "$$venv/.place"; \
	fi; \
	uv=$$(command -v uv || echo "$$venv/bin/uv"); \
	if ! "$$uv" --version >/dev/null 2>&1; then \
	    echo "Fetching uv"; \
	    uv="$$venv/bin/uv"; \
	    sed -n '/^uv==/,/[^\\]$$/p' requirements.lock > "$$venv/uv.txt"; \
	    if "$$python" -m pip --version >/dev/null 2>&1; then \
	        "$$python" -m pip --python "$$venv/bin/python" install -q --disable-pip-version-check --require-hashes -r "$$venv/uv.txt"; \
	    elif "$$venv/bin/python" -m ensurepip >/dev/null 2>&1; then \
	        "$$venv/bin/python" -m pip install -q --disable-pip-version-check --require-hashes -r "$$venv/uv.txt"; \
	    else \
	        echo "make: $$python has neither pip nor ensurepip; install one (Debian: apt install python3-pip) or uv" >&2; \
	        exit 1; \
	    fi; \
	fi; \
	echo "Installing $$lock into $$venv"; \
	if ! "$$uv" pip sync -q --compile-bytecode --python "$$venv/bin/python" --require-hashes "$$lock"; then \
	    echo "make: uv failed; trying pip" >&2; \
	    "$$python" -m pip --python "$$venv/bin/python" install -q --disable-pip-version-check --require-hashes -r "$$lock"; \
	fi; \
	"$$uv" pip install -q --python "$$venv/bin/python" --no-deps --no-build-isolation --editable .; \
	touch "$$venv/.synced"
endef

$(VENV)/.synced: requirements.lock pyproject.toml
	$(call sync,$(VENV),requirements.lock)

$(BENCH_VENV)/.synced: $(BENCH_LOCK) requirements.lock pyproject.toml
	$(call sync,$(BENCH_VENV),$(BENCH_LOCK))

$(PROOF_VENV)/.synced: $(PROOF_LOCK) requirements.lock pyproject.toml
	$(call sync,$(PROOF_VENV),$(PROOF_LOCK))

help: ## List the targets
	@sed -n 's/^\([a-z]*\):.*## \(.*\)/\1|\2/p' Makefile | while IFS='|' read -r target text; do \
	    printf '  make %-8s %s\n' "$$target" "$$text"; \
	done

setup: $(VENV)/.synced ## Create .venv and install everything into it (the other targets do it too)

run: setup ## Show the engine at work, offline, in seconds; DEMO=--studio: in a browser; DEMO=--fleet: on Ray
	@$(BIN)/tool-engine demo $(DEMO)

quick: setup ## Run the tests that need no process, database or document: under a minute
	$(BIN)/python -m tests --quick

test: setup ## Run all quick tests, and of those that take long some in turn, five processes at a time
	$(BIN)/python -m tests

coverage: setup ## Run all tests with all random cases and branch coverage: at least 95 %
	$(BIN)/python -m tests --coverage

check: setup ## Check format, lint, types, layers and documentation
	@status=0; \
	step() { echo "$$*"; "$$@" || status=1; }; \
	step $(BIN)/python -m ruff format --check .; \
	step $(BIN)/python -m ruff check .; \
	step $(BIN)/python -m mypy; \
	step $(BIN)/lint-imports; \
	step $(SPHINX); \
	exit $$status

format: setup ## Format the code and mend what ruff can mend
	$(BIN)/python -m ruff format .
	$(BIN)/python -m ruff check --fix .

bench: $(BENCH_VENV)/.synced ## Measure the cost of a call beside the peers (in .venv-bench)
	@$(BENCH_VENV)/bin/python -m tests.benchmarks

proof: coverage ## Prove it: coverage, a million random operations, mutations, mutated definitions, the HTTP API under load
	@$(MAKE) --no-print-directory $(PROOF_VENV)/.synced || echo "what asks the HTTP API from outside is skipped"
	TESTS_EFFORT=whole $(BIN)/python -m tests.proof

node: ## Install the programs of npm that some tests need, where npm is; else those are skipped
	for folder in tests/mcp_server/node tests/browser/node; do (cd "$$folder" && npm install --no-package-lock --no-audit --no-fund --ignore-scripts --loglevel=error) || exit; done

ray: setup ## Install Ray, where it can be had; else what needs it, of tests and benchmarks, is skipped
	uv=$$(command -v uv || echo $(BIN)/uv); for venv in $(VENV) $(BENCH_VENV); do \
	    [ ! -x $$venv/bin/python ] || "$$uv" pip install -q --python $$venv/bin/python 'ray[client]>=2.60' || exit; \
	done

docs: setup ## Build the documentation into docs/_build/html
	$(SPHINX)
	@echo "docs/_build/html/index.html"

release: setup ## Build a release and check it as its users will have it; publishes nothing
	$(BIN)/python -m tests.release

lock: setup ## Make requirements.lock and the benchmarks' lock anew from pyproject.toml
	@set -eu; uv=$$(command -v uv || echo $(BIN)/uv); \
	compile() { \
	    "$$uv" pip compile pyproject.toml -q --universal --python-version 3.11 --generate-hashes --strip-extras \
	        --no-emit-index-url --custom-compile-command 'make lock' $(LOCK_FLAGS) "$$@"; \
	}; \
	compile --group dev -o requirements.lock; \
	compile --group bench -o $(BENCH_LOCK); \
	compile --group proof -o $(PROOF_LOCK)

clean: ## Remove all that the other targets make
	rm -rf $(VENV) $(BENCH_VENV) $(PROOF_VENV) .coverage .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache build dist docs/_build
