# Each target makes the virtual environment it needs; nothing else is asked of a fresh machine than Python 3.11.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
# Processes that share the tests: auto is three for two processors for `make test`, four for the other tiers, as many
# tests wait; 0 runs them all in one process.
WORKERS ?= auto
# Versions of what is installed: those of this file, which .ci/lock writes; if empty, the newest that pyproject.toml allows.
LOCK ?= tests/requirements.txt
# Each process of the tests would compile all modules anew.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help demo test test-all night newest lint docs live chaos soak damage mutants fuzz bench dist clean

help:  ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "%-8s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: $(VENV)/.spark  ## audit a million generated messages against a sample topology, without any server
	$(BIN)/python -m examples.demo $(ARGS)

PYTEST = $(BIN)/python -m pytest -n $(WORKERS) --maxprocesses=4 --dist=loadgroup

test: $(VENV)/.test  ## the tests that need no server or browser, in some minutes
	$(PYTEST) --tier=quick $(ARGS)

test-all: $(VENV)/.test  ## all tests; those that need a server skip where none is to be had
	$(PYTEST) --tier=all $(ARGS)

night: $(VENV)/.test $(VENV)/.fuzz  ## everything: ten times as many random examples, chaos, fuzz, soak and mutants; needs servers
	$(BIN)/python -m tests.night $(ARGS)

newest:  ## those of test with the newest of all packages, in a virtual environment of its own
	rm -rf .venv-newest
	$(MAKE) VENV=.venv-newest LOCK= test

lint: $(VENV)/.lint  ## types, style and the direction of imports
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports

live: $(VENV)/.test  ## 200,000 random messages through each live RabbitMQ, compared one by one
	HASHSTAR_REQUIRE_LIVE=1 HASHSTAR_LIVE_MESSAGES=200000 $(BIN)/python -m pytest -m live $(ARGS)

chaos: $(VENV)/.test  ## bridge and brokers killed and restarted, connections cut and stalled: nothing may be lost
	$(BIN)/python -m tests.chaos $(ARGS)

soak: $(VENV)/.test  ## 10,000 starts and stops of the bridge at random moments: none may hang
	$(BIN)/python -m tests.soak_start_stop $(ARGS)

mutants: $(VENV)/.test  ## the code broken on purpose, one change at a time: a test must notice each
	$(BIN)/python -m tests.mutants $(ARGS)

damage: $(VENV)/.test  ## 2,000 damaged copies of archives: what stands unchanged is read, the rest is reported
	HASHSTAR_DAMAGED_COPIES=2000 $(BIN)/python -m pytest tests/bindings/archive/test_damage.py $(ARGS)

fuzz: $(VENV)/.fuzz  ## inputs guided by coverage for all that is read from outside; without atheris, nothing
	$(BIN)/python -m tests.fuzz $(ARGS)

bench: $(VENV)/.bench  ## how fast, side by side with a floor and the peers
	$(BIN)/python -m benchmarks $(ARGS)

docs: $(VENV)/.docs  ## the documentation as a website in build/site, tried in Chromium if there is one
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict --config-file docs/site/mkdocs.yml
	$(BIN)/python -m docs.scripts.try_site build/site

dist: $(VENV)/.dist  ## build what is released twice, compare, install it into empty environments and try it
	$(BIN)/python -m tests.dist $(ARGS)

clean:  ## remove the virtual environment and what the targets above made
	rm -rf $(VENV) .venv-newest build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache

# Backends of builds come first, as nothing is built in isolation: pip would fetch the newest of them for it.
$(VENV)/.build: pyproject.toml $(LOCK)
	$(PYTHON) -m venv $(VENV)
	$(install)

$(VENV)/.spark: $(VENV)/.build
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	# Once, before several processes of the tests would at the same time.
	$(BIN)/python -m compileall -q exchange bindings bridge
	$(install)

# The groups of pyproject.toml.
$(VENV)/.test $(VENV)/.lint $(VENV)/.docs $(VENV)/.bench $(VENV)/.fuzz $(VENV)/.dist: $(VENV)/.%: $(VENV)/.spark
	$(install)

# Installs the extra or group that the target is named after. Python compiles of the packages what is used, and pip would
# compile all, three quarters of which never are.
define install
$(BIN)/python tests/support/lock.py '$(LOCK)' $(@:$(VENV)/.%=%) >$@.txt
$(BIN)/python -m pip install --quiet --no-compile --disable-pip-version-check --use-pep517 --no-build-isolation --requirement $@.txt
touch $@
endef
