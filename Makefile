# Every target works alone on a fresh machine: it makes .venv, installs what it needs there, then runs.
#
#   make demo        train on real digits, then recover a rod's conductivity; pictures in examples/out/
#   make test        the fast test suite          make test-all   with the long sweeps
#   make lint        ruff                         make types      mypy on the public API and ir/
#   make corpus      the wrong-gradient corpus, with the tools that are installed: docs/correctness.md
#   make bench       races with the tools that are installed, quick; calls beside Numba
#   make bench-all   all sizes, second starts, growth with size, single calls of NumPy, programs of users':
#                    docs/performance.md; NPBENCH=/path/to/clone too
#   make gpu-check   on a machine with an NVIDIA GPU: its results beside the CPU's, then speeds into docs/gpu.md
#   make clean       remove .venv and all that was made
#   make npbench NPBENCH=/path/to/clone           the kernels of NPBench beside NumPy; PRESET=M KERNELS=gemm,mlp
#   make npbench-grad NPBENCH=/path/to/clone      their gradients, checked and timed
#   make gradbench GRADBENCH=/path/to/clone       the evals of GradBench; EVALS=gmm,ba RACERS="--few --tool jax=..."
#   make people PEOPLE=/path/to/clones            other people's functions, unmodified, beside plain Python
#
# Another interpreter: make test PYTHON=/path/to/python3.12

PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
RUN    := $(VENV)/.stamp-run
DEV    := $(VENV)/.stamp-dev

# Where the environment forbids to keep byte code, every process of a test would compile the package anew, for a second.
export PYTHONDONTWRITEBYTECODE :=

.DELETE_ON_ERROR:
.PHONY: help demo test test-all lint types corpus bench bench-all gpu-check npbench npbench-grad gradbench people clean

help:
	@sed -n 's/^#  *make/  make/p' Makefile

demo: $(RUN)
	$(BIN)/python examples/digits.py
	$(BIN)/python examples/heat.py
	@echo
	@echo "The pictures: examples/out/digits.png  examples/out/heat.png"
	@echo "Run make demo again: the kernels then come from the disk cache."

# Each process takes one half of the tests in their order, so that tests of one file share what they have compiled;
# the first that is done takes over some of the other's.
SHARED := -n 2 --dist worksteal

# The second run calls everything through the entry that is written in Python, which other platforms use.
test: $(RUN)
	$(BIN)/python -m pytest $(SHARED)
	DLVM_ENTRY=python $(BIN)/python -m pytest $(SHARED) tests/test_jit.py tests/test_contract.py tests/test_runtime.py

test-all: $(RUN)
	$(BIN)/python -m pytest $(SHARED) -m "slow or not slow"

lint: $(DEV)
	$(BIN)/python -m ruff check .

types: $(DEV)
	$(BIN)/python -m mypy

bench: $(DEV)
	$(BIN)/python benchmarks/call_overhead.py
	$(BIN)/python benchmarks/bench.py --seconds 0.3 $(RACERS)

gpu-check: $(RUN)
	$(BIN)/python benchmarks/gpu.py --write docs/gpu.md

# Peers may live in other environments: RACERS="--python torch=/path/to/python --python dace=/path/to/python"
bench-all: $(DEV)
	$(BIN)/python benchmarks/bench.py --sizes S,M --warm --growth docs/figures/growth.svg --write docs/performance.md \
	    --json benchmarks/results.json $(RACERS)
	$(BIN)/python benchmarks/single_calls.py --write docs/performance.md --json benchmarks/numpy-calls.json
	$(BIN)/python benchmarks/users.py --write docs/performance.md --json benchmarks/users.json
	$(if $(NPBENCH),$(BIN)/python benchmarks/bench.py --npbench "$(NPBENCH)" --sizes S,M --write docs/performance.md \
	    --json benchmarks/npbench/results.json $(RACERS))

# The peers that the page compares with may live in other environments: make corpus PEERS=/path/to/their/python
corpus: $(RUN)
	$(BIN)/python docs/build_correctness.py $(foreach python,$(PEERS),--python $(python))

PRESET  := S
KERNELS :=

npbench npbench-grad: $(RUN)
	@test -n "$(NPBENCH)" || { echo "say where a clone of https://github.com/spcl/npbench lies:" \
	    "make $@ NPBENCH=/path/to/npbench" >&2; exit 2; }
	$(BIN)/python benchmarks/npbench/run.py "$(NPBENCH)" --preset "$(PRESET)" --kernels "$(KERNELS)" \
	    $(if $(filter npbench-grad,$@),--gradient) --json "benchmarks/npbench/results-$@-$(PRESET).json"

gradbench: $(RUN)
	@test -n "$(GRADBENCH)" || { echo "say where a clone of https://github.com/gradbench/gradbench lies:" \
	    "make gradbench GRADBENCH=/path/to/gradbench" >&2; exit 2; }
	$(BIN)/python benchmarks/gradbench/run.py "$(GRADBENCH)" --evals "$(EVALS)" \
	    --json benchmarks/gradbench/results.json $(RACERS) -- $(OPTIONS)

SUITES := numpy-benchmarks,numba-benchmark,numba-tests,poliastro,quantecon,scipy,scikit-image,algorithms

people: $(RUN)
	@test -n "$(PEOPLE)" || { echo "say in which folder the clones lie (benchmarks/people/run.py says of what):" \
	    "make people PEOPLE=/path/to/clones" >&2; exit 2; }
	$(BIN)/python benchmarks/people/run.py "$(PEOPLE)" --suites "$(SUITES)" --json benchmarks/people/results.json

clean:
	rm -rf $(VENV) build dist *.egg-info examples/out
	rm -rf .pytest_cache .hypothesis .mypy_cache .ruff_cache
	find dlvm_py tests examples benchmarks -name __pycache__ -type d -prune -exec rm -rf {} + 2>/dev/null || true

# A name on the path proves nothing (version managers leave stubs), so each candidate is run and asked.
# Where the system's Python comes without ensurepip, its own pip fills the new environment.
$(BIN)/python:
	@for candidate in "$(PYTHON)" python3.13 python3.12 python3.11 python3 python; do \
	    "$$candidate" -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13))' \
	        >/dev/null 2>&1 || continue; \
	    echo "making $(VENV) with $$candidate"; \
	    "$$candidate" -m venv --clear $(VENV) >/dev/null 2>&1 && exit 0; \
	    "$$candidate" -m venv --clear --without-pip $(VENV) \
	        && "$$candidate" -m pip --python $(BIN)/python install --quiet pip \
	        && exit 0; \
	    rm -rf $(VENV); \
	    echo "$$candidate cannot make a virtual environment: install its venv package" \
	        "(on Debian and Ubuntu: apt install python3-venv)." >&2; \
	    exit 1; \
	done; \
	echo "dlvm-py needs Python 3.11, 3.12 or 3.13; none was found as $(PYTHON) or on the path." >&2; \
	echo "Install one, or name it: make PYTHON=/path/to/python3.12" >&2; \
	exit 1

# The order-only prerequisite keeps the interpreter's own date out of the question.
$(RUN): pyproject.toml | $(BIN)/python
	@echo "installing dlvm-py and what its tests and examples need (once; about a minute)"
	@$(BIN)/python -m pip install --quiet --editable ".[examples,test]"
	@touch $@

$(DEV): pyproject.toml $(RUN)
	@echo "installing the development tools (once)"
	@$(BIN)/python -m pip install --quiet --editable ".[examples,test,dev]"
	@touch $@
