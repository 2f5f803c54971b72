# Everything runs in .venv on a real install, so that a file missing from the package shows here and
# not at a user's. `make help` lists the targets.

PYTHON ?= python3

VENV  := .venv
BIN   := $(VENV)/bin
PIP   := -m pip --disable-pip-version-check install --quiet
BUILD_LEFTOVERS := build/lib build/bdist.* ackbus.egg-info

# What a wheel is made from. The folders are listed for their dates, as a deleted file changes one,
# and as `demo/.`, since `demo` and `torture` are targets.
ASIDE   := -path bench -o -path build -o -path docs -o -path tests \
             -o -name '*.egg-info' -o -name __pycache__
SOURCES := pyproject.toml $(shell find * \( $(ASIDE) \) -prune -o \
             -type d -printf '%p/. ' -o \
             \( -name '*.py' -o -name '*.js' -o -name '*.json' -o -name '*.sql' -o -name py.typed -o -path '*/static/*' -o -path '*/shipped/*' \) -print)

# Tests that are compiled again in each process cost as much as many of them.
unexport PYTHONDONTWRITEBYTECODE

# Some tests wait for other processes: four share two cores. One without tests takes another's.
SIDE_BY_SIDE := --numprocesses=4 --dist=worksteal
BY_DAY       := -m "not slow and not nightly"

# `make nightly` and `make powerloss` are about the disk, and write to it.
IN_MEMORY := $(shell .ci/in-memory)

# The rooms whose tests stay in one process: but for what is slow.
QUICK := $(addprefix tests/,architecture schema blobs bus subscribers export)
# What is run with each other Python: what is below the command line.
ROOMS := $(addprefix tests/,schema blobs bus subscribers)

# What is left to `make snippets`, and to `make dist`.
DOCUMENTS := tests/docs/test_documents.py
RELEASE   := tests/release
ALL_ROOMS := --ignore=$(DOCUMENTS) --ignore=$(RELEASE)

# The files that have slow tests: the others needn't be collected.
SLOW := $(shell grep -rl --include='test_*.py' 'mark\.slow' tests)

SHELL := bash
.SHELLFLAGS := -eu -o pipefail -c
.NOTPARALLEL:
.DEFAULT_GOAL := help
.PHONY: help demo quick test slow nightly pythons check format lint types snippets dist powerloss fuzz torture soak \
        corruption bench bench-smoke bench-report servers programs conformance fmt venv venv-editable clean

help:  ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-14s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: $(VENV)/installed  ## install into .venv and run `bus demo`
	$(BIN)/bus demo

quick: $(VENV)/test-installed  ## run the tests that start few processes, in a minute: while you edit
	$(IN_MEMORY) $(BIN)/pytest --numprocesses=2 --dist=worksteal $(BY_DAY) $(QUICK)

test: venv  ## run the tests, but for the slow ones
	$(IN_MEMORY) $(BIN)/pytest $(SIDE_BY_SIDE) $(BY_DAY) $(ALL_ROOMS)

slow: venv  ## run the slow tests: kills, full disks, lost power, hostile files, fuzz, a browser
	@echo 'pytest -m "slow and not nightly"' of the $(words $(SLOW)) files that have slow tests
	@$(IN_MEMORY) $(BIN)/pytest $(SIDE_BY_SIDE) -m "slow and not nightly" $(ALL_ROOMS) $(SLOW)

nightly: venv conformance  ## run all tests in their long forms (an hour), real programs, then kill 5,000 agents
	ACKBUS_NIGHTLY=1 ACKBUS_CONFORMANCE=$(CURDIR)/$(VENV)/conformance/node_modules $(BIN)/pytest $(SIDE_BY_SIDE) $(ALL_ROOMS) --timeout=1200 -m ""
	if command -v npm >/dev/null; then $(MAKE) programs; fi
	$(BIN)/bus torture --agents 35 --minutes 30 --kill-every 0.3

# MCP's suite for servers, with a Node that it runs on: npm has both.
conformance: venv
	@command -v npm >/dev/null || { echo "no npm: the conformance suite is left out" >&2; exit 0; }; \
	npm install --prefix $(VENV)/conformance --no-audit --no-fund --loglevel=error \
	  @modelcontextprotocol/conformance@0.1.16 node@22

pythons: venv  ## run the quick tests of four rooms with each later Python that is here
	$(IN_MEMORY) .ci/pythons $(ROOMS)

# Each changed byte costs a second: half of them change nothing, the others are found and repaired.
corruption: venv  ## change 500 bytes of a bus and 500 of its write-ahead log, one by one, and repair
	ACKBUS_FLIPS=500 $(BIN)/pytest -s tests/fault/test_corruption.py -k flips

check: format lint types test slow snippets bench-smoke  ## everything that must pass, in this order

format: venv  ## check the formatting (`make fmt` repairs it)
	$(BIN)/ruff format --check

lint: venv  ## check the code with ruff
	$(BIN)/ruff check

types: venv  ## check the types of the installed package (errors name the source files)
	$(BIN)/mypy --cache-dir $(VENV)/mypy-cache -p ackbus | sed 's|^.*/site-packages/ackbus/||'

snippets: venv  ## run the commands and programs of README.md and docs/
	$(IN_MEMORY) $(BIN)/pytest $(SIDE_BY_SIDE) $(DOCUMENTS)

# The wheel is made from the sdist, so that the sdist is known to hold all that a wheel needs.
dist: venv  ## build sdist and wheel into dist/, and use them in empty environments
	rm -rf dist $(BUILD_LEFTOVERS)
	$(BIN)/python -m build --outdir dist >/dev/null
	rm -rf $(BUILD_LEFTOVERS)
	$(IN_MEMORY) $(BIN)/pytest --numprocesses=2 --dist=worksteal $(RELEASE)

powerloss: venv  ## lose power at every recorded point of every workload, and look at what is left
	$(BIN)/python tests/powerloss/run.py

# FUZZ gives another number of cases, a seed, one target: `make fuzz FUZZ='--cases 5000 --seed 7'`.
fuzz: venv  ## try 100,000 cases of bad input; a seed tells them again
	$(BIN)/python -m tests.fuzz $(FUZZ)

# Short ones are in tests/torture. Where a proof fails, what is left to look at is in bus-torture-*.
torture: $(VENV)/installed  ## kill 35 agents at random, a thousand times in six minutes, and prove
	$(BIN)/bus torture --agents 35 --minutes 6 --kill-every 0.3

soak: $(VENV)/installed  ## let 35 agents live for longer, for 20 minutes, and prove
	$(BIN)/bus torture --agents 35 --minutes 20 --kill-every 15

# Each file of bench/ that asks a question; the others are what they share.
SHARES  := measure payloads do_nothing peers floors listening report generator scale_acts scale_plot schedule_peers
SHARED  := $(SHARES:%=bench/%.py)
BENCHES := $(filter-out $(SHARED),$(wildcard bench/*.py))

bench: venv $(VENV)/bench-installed servers  ## ask every benchmark; the records go to bench/results
	$(foreach bench,$(BENCHES),$(BIN)/python $(bench) --out bench/results/$(notdir $(bench:.py=.json));)

bench-smoke: venv $(VENV)/bench-installed  ## show that every benchmark works, at a tiny size
	printf '%s\n' $(BENCHES) | xargs --max-procs=2 -I {} $(BIN)/python {} --smoke >/dev/null

bench-report: $(VENV)/bench-installed  ## write docs/benchmarks from the records in bench/results
	$(BIN)/python bench/report.py

# The brokers that the benchmarks start. What can't be had is left out of them, and they say so.
servers:
	@for server in redis-server nats-server; do \
	  PATH=$$PATH:/usr/sbin command -v $$server >/dev/null || \
	  { [ $$(id -u) = 0 ] && apt-get install --quiet=2 --yes --no-install-recommends $$server; } || \
	  echo "no $$server, and it can't be installed here: the benchmarks leave it out" >&2; \
	done

# Of npm, in the versions that docs/how-to/set-up-agents.md names: a newer one may want another form.
PROGRAMS := @anthropic-ai/claude-code@2.1.197 @openai/codex@0.169.0 @google/gemini-cli@0.61.0 \
            @github/copilot@1.0.102 opencode-ai@1.18.33

# What people have by now: a version that changes something is reported.
NEWEST := $(shell echo '$(PROGRAMS)' | sed -E 's/@[0-9.]+( |$$)/@latest\1/g')

# Libraries for agents: each has an environment of its own, as they want different SDKs.
LIBRARIES := openai_agents=openai-agents==0.24.0 langchain=langchain-mcp-adapters==0.3.2 \
             crewai=crewai-tools[mcp]==1.15.30

programs: venv  ## drive the programs that `bus setup` sets up, pinned and newest, before a scripted model
	npm install --prefix $(VENV)/programs --no-audit --no-fund --loglevel=error $(PROGRAMS)
	npm install --prefix $(VENV)/newest --no-audit --no-fund --loglevel=error $(NEWEST)
	for library in $(LIBRARIES); do \
	  $(PYTHON) -m venv $(VENV)/libraries/$${library%%=*}; \
	  $(VENV)/libraries/$${library%%=*}/bin/python $(PIP) "$${library#*=}"; \
	done
	ACKBUS_PROGRAMS=$(CURDIR)/$(VENV)/programs/node_modules/.bin \
	  ACKBUS_NEWEST_PROGRAMS=$(CURDIR)/$(VENV)/newest/node_modules/.bin \
	  ACKBUS_LIBRARIES=$(CURDIR)/$(VENV)/libraries $(BIN)/pytest --verbose tests/real_programs

fmt: venv  ## format the code, sort its imports, repair what ruff can repair
	$(BIN)/ruff check --fix-only
	$(BIN)/ruff format

venv: $(VENV)/installed $(VENV)/dev-installed  ## make .venv, or bring it up to date

# The package as users get it; made again when a source is newer. setuptools would pack what an
# earlier build left behind, hence the removal before, and after. Python compiles what it loads, at
# the first use: all at once takes pip a third of the time until a demo begins.
$(VENV)/installed: $(SOURCES) | $(BIN)/python
	rm -rf $(BUILD_LEFTOVERS)
	$(BIN)/python $(PIP) --no-compile .
	rm -rf $(BUILD_LEFTOVERS)
	@touch $@

# What the tests below servers and browsers need.
$(VENV)/test-installed: pyproject.toml | $(VENV)/installed
	$(BIN)/python $(PIP) '.[test]'
	rm -rf $(BUILD_LEFTOVERS)
	@touch $@

# All tools. pytest compiles the tests once, by half of the folders in each of two processes: those
# of `make test` would all begin with that.
$(VENV)/dev-installed: pyproject.toml | $(VENV)/installed
	$(BIN)/python $(PIP) '.[dev]'
	rm -rf $(BUILD_LEFTOVERS)
	printf '%s\n' tests/*/ | xargs --max-procs=2 --max-args=18 $(BIN)/pytest --collect-only -qq >/dev/null
	@touch $@

# The peers that the benchmarks compare with.
$(VENV)/bench-installed: pyproject.toml | $(VENV)/installed
	$(BIN)/python $(PIP) '.[bench]'
	rm -rf $(BUILD_LEFTOVERS)
	@touch $@

$(BIN)/python:
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "ackbus needs Python 3.11 or later")'
	$(PYTHON) -m venv $(VENV)

# Strict mode links each file, which is what mypy and editors can follow; run it again for a new file.
venv-editable:  ## make .venv-editable, where edits work without an install
	test -x .venv-editable/bin/python || $(PYTHON) -m venv .venv-editable
	.venv-editable/bin/python $(PIP) --config-settings editable_mode=strict --editable '.[dev]'

clean:  ## remove what the targets made
	rm -rf $(VENV) .venv-editable bus-torture-* build dist *.egg-info .hypothesis .mypy_cache .pytest_cache .ruff_cache
	find . -name __pycache__ -prune -exec rm -r {} +
