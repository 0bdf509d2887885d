# Each target makes the virtual environment and installs what it needs, once; pyproject.toml decides what that is.

PYTHON ?= python3
VENV ?= .venv
WORKERS ?= 2
TORCH ?= torch==2.13.0
VERSIONS ?= newest

# Interrupts come at every bytecode: in processes of their own, since others load libraries whose methods are exchanged in
# each trace.
INTERRUPTS = tests/whole/test_interrupts.py

# The first that runs of several versions of Python, on the path or of pyenv: $(call find-python,3.13 3.12)
find-python = $(firstword $(foreach version,$(1),$(or \
	$(shell python$(version) -c 'import sys; print(sys.executable)' 2>/dev/null),\
	$(lastword $(sort $(wildcard $(or $(PYENV_ROOT),$(HOME)/.pyenv)/versions/$(version).*/bin/python3))))))

BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check

.DEFAULT_GOAL := help
.PHONY: help demo test test-short test-lowest test-newest stress bench lint ruff mypy docs-check coverage clean

help: ## list the targets
	@grep -E '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /: /' | awk -F': ' '{ printf "  make %-11s %s\n", $$1, $$2 }'

demo: $(VENV)/.installed-examples ## train a network on handwritten digits, and draw its loss curve
	$(BIN)/python docs/examples/digits.py

# Each worker has a processor; threads of BLAS on top of them wait for one another.
test test-short stress: export OPENBLAS_NUM_THREADS ?= 1

# Tests of one file share much of what is compiled.
test: $(VENV)/.installed-test ## run the tests, with half of so many sets of parameters as cover these
	$(BIN)/python -m pytest -n $(WORKERS) --dist loadfile

test-lowest: LOWEST = $(VENV)-lowest
test-lowest: ## run most of them with the oldest Python and libraries that pyproject.toml admits
	mkdir -p $(LOWEST)
	$(PYTHON) .ci/lowest.py > $(LOWEST)/constraints.txt
	PIP_CONSTRAINT="$(abspath $(LOWEST))/constraints.txt" $(MAKE) test-short VENV=$(LOWEST) VERSIONS=lowest \
		PYTHON=$(or $(call find-python,3.11),$(PYTHON))

test-newest: NEWEST = $(or $(call find-python,3.14 3.13 3.12),$(PYTHON))
test-newest: ## run most of them with the other half, a newer Python, if there is one, and the newest libraries
	$(MAKE) test-short VENV=$(VENV)-newest VERSIONS=newest PYTHON=$(NEWEST)

# Which sets of parameters run where: tests/support/sets.py.
test-short: $(VENV)/.installed-short
	$(BIN)/python -m pip list
	$(BIN)/python -m pytest -n $(WORKERS) --dist loadfile --versions $(VERSIONS)

stress: $(VENV)/.installed-test ## run all sets of parameters, all cases, 2,000 random sequences, all pairs of dtypes, a memory checker
	YOTA_SEQUENCES=2000 $(BIN)/python -m pytest -n $(WORKERS) --dist worksteal $(INTERRUPTS)
	YOTA_SEQUENCES=2000 $(BIN)/python -m pytest -n $(WORKERS) --dist worksteal --ignore=$(INTERRUPTS)

bench: $(VENV)/.installed-bench ## compare with NumPy, Autograd, JAX and PyTorch
	$(BIN)/python -m benchmarks.run
	$(BIN)/python -m benchmarks.calls
	$(BIN)/python -m benchmarks.dynamic
	$(BIN)/python -m benchmarks.coldstart
	$(BIN)/python -m benchmarks.natural
	$(BIN)/python -m benchmarks.solution
	$(BIN)/python -m benchmarks.loops
	$(BIN)/python -m benchmarks.jacobians
	$(BIN)/python -m benchmarks.lookup
	$(BIN)/python -m benchmarks.kernels

lint: ruff mypy ## ruff and mypy

ruff: $(VENV)/.installed-dev
	$(BIN)/ruff check .

mypy: $(VENV)/.installed-dev
	$(BIN)/mypy

docs-check: $(VENV)/.installed-test ## run every example in the documentation
	$(BIN)/python -m pytest tests/project/test_docs.py

coverage: $(VENV)/.installed-test ## write docs/coverage.md: which functions are differentiable, found by calling them
	$(BIN)/python docs/make_coverage.py

clean: ## remove caches and results, but not the environment
	rm -rf build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis docs/examples/out benchmarks/results
	find yota_py rules tests benchmarks docs -name __pycache__ -prune -exec rm -rf {} +

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
		|| { echo "yota_py needs Python 3.11 or later; say which one: make PYTHON=python3.12 ..." >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)

# A stamp per extra, so that a second run installs nothing.
$(VENV)/.installed-%: pyproject.toml | $(BIN)/python
	$(PIP) install --editable ".[$*]"
	@touch $@

# The version is pinned: a build for the CPU that is at hand satisfies the extra; a plain "torch" may bring GBs of CUDA.
$(VENV)/.installed-test $(VENV)/.installed-bench: $(VENV)/.installed-%: pyproject.toml | $(BIN)/python
	$(PIP) install "$(TORCH)"
	$(PIP) install --editable ".[$*]"
	@touch $@
