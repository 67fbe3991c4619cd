# Thin calls of configure.sh, Bazel and the environment's Python.
#   make build | demo | test | test-long | bench | wheel | lint | tsan | asan | clean
# CONDACC_PYTHON, CONDACC_CUDA, CUDA_HOME and CXX are explained in configure.sh.

PYTHON := $(or $(CONDACC_PYTHON),.venv/bin/python)
BAZEL := .tools/bazelisk
CLANG_FORMAT := $(dir $(PYTHON))clang-format
CXX_SOURCES = $(shell find cc tests/cc benchmarks -name '*.h' -o -name '*.cc')
PRODUCTS := _condacc_ops.so _build_info.json

.PHONY: configure build demo test test-long cc-test tsan asan bench wheel lint format clean

.NOTPARALLEL:

configure:
	@./configure.sh

# A product is replaced by a rename, never written over: a running process may have it mapped.
build: configure
	@$(BAZEL) build //:plugin
	@for file in $(PRODUCTS); do \
	  cmp -s bazel-bin/$$file tf_condacc/$$file || { \
	    install -m 644 bazel-bin/$$file tf_condacc/$$file.new && \
	    mv -f tf_condacc/$$file.new tf_condacc/$$file; }; \
	done

# TensorFlow's C++ log, full of steps that ended as they should, would break up the progress bar.
demo: build
	TF_CPP_MIN_LOG_LEVEL=3 $(PYTHON) -m tf_condacc.demo

test: build cc-test
	$(PYTHON) -m pytest -n 2 --dist loadfile tests

# Ten minutes of killed and stopped processes.
test-long: build
	TF_CONDACC_CHAOS_SECS=600 $(PYTHON) -m pytest tests/sync_replicas/test_sync_replicas_chaos.py

cc-test: configure
	$(if $(shell grep -s 'CONDACC_GTEST_DIR=/' .condacc.bazelrc),\
	  $(BAZEL) test //tests/cc/...,\
	  @echo 'C++ tests left out: GoogleTest is missing (Debian: apt-get install libgtest-dev)')

tsan asan: configure
	$(BAZEL) test --config=$@ //tests/cc/...

bench: build
	$(PYTHON) benchmarks/run.py

wheel: build
	$(PYTHON) -m pip wheel --quiet --no-deps --no-build-isolation --wheel-dir dist .

lint: configure
	$(PYTHON) -m ruff check .
	$(PYTHON) -m ruff format --check .
	$(PYTHON) -m mypy
	$(CLANG_FORMAT) --dry-run -Werror $(CXX_SOURCES)

format: configure
	$(PYTHON) -m ruff check --fix .
	$(PYTHON) -m ruff format .
	$(CLANG_FORMAT) -i $(CXX_SOURCES)

clean:
	rm -rf build dist *.egg-info $(addprefix tf_condacc/,$(PRODUCTS))
	if [ -x $(BAZEL) ]; then $(BAZEL) clean; fi
