# One command runs the course, one proves it. Both do their own set-up in .venv.
PYTHON ?= python3
VENV ?= .venv
PIP_ARGS ?=
PYTEST = $(VENV)/bin/python -m pytest
BIN = $(abspath $(VENV)/bin)
# Fixed pieces of work on small matrices: a second thread costs more than it brings.
export OMP_NUM_THREADS ?= 1
export MPLBACKEND ?= Agg

.DEFAULT_GOAL := help
.PHONY: help setup run test test-all test-units test-learning test-notebooks test-repeats student bench lint clean

help:  ## show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-15s %s\n", $$1, $$2}' Makefile

setup: $(VENV)/.ready  ## make the virtual environment and install the course into it

$(VENV)/.ready: pyproject.toml
	@echo "Setting up $(VENV): PyTorch and what belongs to it, about 6 GB, some minutes. Done once."
	$(PYTHON) -m venv $(VENV)
	$(VENV)/bin/python -m pip install --quiet $(PIP_ARGS) --editable '.[all]'
	@touch $@

run: setup  ## run the ten notebooks on the embedded data and show the table of exercises
	@PATH="$(BIN):$$PATH" $(VENV)/bin/cst run

test: setup test-units test-learning test-notebooks  ## prove it: units, learning, notebooks (under 15 minutes on 2 cores)

test-units: setup
	$(PYTEST) -n 2 --dist loadfile -q -m "not slow and not learning" tests cs_transformers

test-learning: setup
	$(PYTEST) -n 2 --dist loadfile -q -m "learning and not slow" tests

NBVAL = $(PYTEST) -q -W default --nbval --nbval-current-env --nbval-cell-timeout 300 --nbval-sanitize-with notebooks/nbval_sanitize.cfg -n 2 --dist loadscope

test-notebooks: setup
	$(NBVAL) notebooks

test-repeats: setup
	OMP_NUM_THREADS=1 $(NBVAL) notebooks
	OMP_NUM_THREADS=2 $(NBVAL) -n 1 notebooks  # two notebooks of two threads each would wait for each other

test-all: test  ## everything in `make test`, then the long forms and the notebooks again on 1 and 2 threads
	$(PYTEST) -n 2 --dist loadfile -q -m slow tests
	$(MAKE) test-repeats

student: setup  ## write the student edition (stubs) into work/
	$(VENV)/bin/cst student work

BENCH ?=
bench: setup  ## run the benchmarks: make bench BENCH="--only vit_cifar --quick --seeds 3"
	$(VENV)/bin/python -m benchmarks $(BENCH)

lint: setup  ## style of code and notebooks
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .

clean:  ## remove what a command can make again; work/, answers/ and runs/ stay: they may hold somebody's work
	rm -rf $(VENV) run build *.egg-info datasets/cache
