# Thin wrappers around configure.sh, Bazel and the environment's Python.
#   make build | demo | test | test-long | test-reference | test-planted | test-mutants | bench
#   make test-wide | test-install | test-examples | test-benchmarks | test-documents | test-programs
#   make test-multi-worker | test-clusters | test-killed-trainings | test-soak | test-junk
#   make wheel | wheel-cuda | wheels | test-versions | test-compilers | docs | pictures | lint | format
#   make tsan | asan | fuzz | soak | reliability
#   make test-aarch64 | test-gpu-emulated | test-gpu-emulated-plugin | pack-tensorflow | clean
# CONDACC_PYTHON, CONDACC_CUDA, CUDA_HOME and CXX are explained in configure.sh.

PYTHON := $(or $(CONDACC_PYTHON),.venv/bin/python)
BAZEL := .tools/bazelisk
RELEASE := .tools/release/ready
DOCS := .tools/docs/ready
TYPES := .tools/types/ready
# Three processes keep two cores busy, because tests of clusters and programs wait. Files are
# started in the order of their folders, and the last ones are short. By default pytest-xdist starts
# the files with the fewest tests last, which are the longest here. A process that ends during a test
# is replaced.
PYTEST := $(PYTHON) -m pytest -n 3 --dist loadfile --no-loadscope-reorder --max-worker-restart=50
# The tests that `make test` leaves out, by the markers of pyproject.toml, and where each stands.
PARTS := wide install examples benchmarks documents programs multi-worker clusters killed-trainings \
  soak junk
PLACE_OF_wide := tests/accumulators tests/build tests/call_sites tests/distribute \
  tests/drop_stale tests/keras tests/migrate tests/parity
PLACE_OF_install := tests/build/test_install.py tests/command/test_build.py
PLACE_OF_examples := tests/examples
PLACE_OF_benchmarks := tests/benchmarks
PLACE_OF_documents := tests/docs
PLACE_OF_programs := tests/command tests/compat
PLACE_OF_multi-worker := tests/distribute tests/parity
PLACE_OF_clusters := tests/cluster tests/drop_stale tests/sync_replicas
PLACE_OF_killed-trainings := tests/accumulators/saving tests/keras
PLACE_OF_soak := tests/soak
PLACE_OF_junk := tests/junk
CLANG_FORMAT := $(dir $(PYTHON))clang-format
CLANG_TIDY := $(dir $(PYTHON))clang-tidy
CXX_SOURCES = $(shell find cc tests benchmarks -name '*.h' -o -name '*.cc')
EMULATED_MYPY := tests/gpu/emulated/translate_ptx.py tests/gpu/emulated/ptx
PLANTED := tests/cc/explorer/planted
MUTANTS := tests/cc/mutants
NO_NVCC = $(if $(shell grep -s 'CONDACC_CUDA_DIR=/' .condacc.bazelrc),,configure.sh found no nvcc)
# Why the emulated GPU cannot be used here, or nothing.
NO_EMULATED_GPU = $(if $(filter x86_64,$(shell uname -m)),$(NO_NVCC),the processor is not an x86-64 one)
WHEEL := $(PYTHON) -m pip wheel --quiet --no-deps --no-build-isolation --wheel-dir dist .
# The key that names the libraries for this Python's TensorFlow; see condacc/libraries.py.
KEY = $$(sed -n 's/.*CONDACC_TF_KEY=\(.*\)"$$/\1/p' .condacc.bazelrc)
PRODUCTS := _condacc_ops.so _build_info.json
PRINT_DIGEST := from pathlib import Path; from condacc import libraries; \
  print(libraries.digest_of(Path()))

.PHONY: configure build demo test parts $(PARTS:%=test-%) test-long test-reference cc-test tsan \
  asan bench wheel wheel-cuda wheels test-versions test-compilers docs pictures lint format clean test-planted test-mutants \
  test-gpu-emulated test-gpu-emulated-plugin pack-tensorflow fuzz soak reliability test-aarch64 \
  test-aarch64-core test-schedules

.NOTPARALLEL:

configure:
	@./configure.sh

# The description of the library says from which sources it was built. A product is replaced by a
# rename, never written over: a running process may have it mapped.
build: configure
	@$(BAZEL) build //:plugin
	@key=$(KEY); digest=$$($(PYTHON) -c '$(PRINT_DIGEST)'); mkdir -p build/plugin; \
	cp -f bazel-bin/_condacc_ops.so build/plugin; \
	sed "1s/{/{\n  \"sources\": \"$$digest\",/" bazel-bin/_build_info.json \
	  >build/plugin/_build_info.json; \
	for file in $(PRODUCTS); do \
	  to=tf_condacc/$${file%.*}-$$key.$${file##*.}; \
	  cmp -s build/plugin/$$file $$to || { install -m 644 build/plugin/$$file $$to.new && \
	    mv -f $$to.new $$to; }; \
	done

demo: build
	PYTHONPATH=. $(PYTHON) examples/digits.py

test: build cc-test
	$(PYTEST) tests

parts:
	@echo $(PARTS)

$(PARTS:%=test-%): test-%: build
	$(PYTEST) -m '$(subst -,_,$*) and not long' $(PLACE_OF_$*)

# Repeats tests more often, runs long tests, and explores a million schedules and fuzzed programs of
# each kind, with new seeds.
test-long: build
	$(BAZEL) test --nocache_test_results --test_env=TF_CONDACC_TEST_SEED=new //tests/cc/...
	$(BAZEL) test --nocache_test_results --test_timeout=36000 --test_env=TF_CONDACC_TEST_SEED=new \
	  --test_env=TF_CONDACC_TEST_ROUNDS=1000000 //tests/cc/explorer:schedules \
	  //tests/cc/fuzz:fuzz_test
	$(PYTEST) -m long tests

# Runs the examples of docs/guides/migration on TensorFlow 1.15.5 as well, or says why it cannot.
test-reference: build
	$(PYTHON) -m pytest -m reference -rs tests/reference

cc-test: configure
	$(if $(shell grep -s 'CONDACC_GTEST_DIR=/' .condacc.bazelrc),\
	  $(BAZEL) test //tests/cc/...,\
	  @echo 'C++ tests left out: GoogleTest is missing (Debian: apt-get install libgtest-dev)')

# Explores 60,000 schedules of each program, and checks that they reach everything in a list.
test-schedules: configure
	$(BAZEL) test --test_env=TF_CONDACC_TEST_ROUNDS=60000 //tests/cc/explorer:schedules

# Checks that the explorer of schedules finds bugs that are planted in copies of the core.
test-planted: configure
	$(PYTHON) $(PLANTED)/run.py

# Lets the C++ tests find mutants of the core, which are drawn at random.
test-mutants: configure
	$(PYTHON) $(MUTANTS)/run.py $(or $(SECONDS),600)

# Lets libFuzzer look for calls of the core that end in another way than in a model.
fuzz: configure
	tests/cc/fuzz/run.sh $(or $(SECONDS),60)

# Uses accumulators from many threads, and accounts for every gradient.
soak: build
	PYTHONPATH=. $(PYTHON) -m tests.soak.soak $(or $(MINUTES),10)

# Runs the tools that look for bugs, and writes their figures into docs/reliability.md.
reliability: build
	$(PYTHON) -m tests.reliability.report $(or $(SECONDS),60)

tsan asan: configure
	$(BAZEL) test --config=$@ //tests/cc/...

# Runs the C++ tests of the core and the plugin in TensorFlow on an emulated aarch64 machine, or says
# why it cannot. `make test-aarch64-core` leaves TensorFlow out.
test-aarch64 test-aarch64-core: configure
	$(PYTHON) -m pytest -m aarch64 -rsP --durations=8 tests/aarch64$(if $(filter %-core,$@),/test_core.py)

# Runs the launchers on a GPU that the CPU emulates, and checks that this finds bugs.
test-gpu-emulated: configure
	$(if $(NO_EMULATED_GPU),\
	  @echo 'Tests on the emulated GPU left out: $(NO_EMULATED_GPU)',\
	  $(BAZEL) test //tests/gpu/emulated:tests)

# Runs the whole plugin in TensorFlow, on an emulated device that is registered as a GPU.
test-gpu-emulated-plugin: configure
	$(if $(NO_EMULATED_GPU),\
	  @echo 'The plugin on the emulated GPU left out: $(NO_EMULATED_GPU)',\
	  CONDACC_PYTHON='$(PYTHON)' tests/gpu/emulated/plugin/run.sh)

# Packs TensorFlow and the plugin for a machine with a GPU and without a network.
pack-tensorflow: build
	$(PYTHON) tests/gpu/pack_tensorflow.py

# Measures the library that pip builds.
bench: configure
	$(PYTHON) benchmarks/run.py

# The wheel for the TensorFlow of this Python, for CPUs.
wheel: configure
	$(WHEEL)

# The same with the library of `make build`, which has the kernels for GPUs.
wheel-cuda: build
	rm -rf build/cuda && mkdir -p build/cuda
	key=$(KEY); cp tf_condacc/_condacc_ops-$$key.so tf_condacc/_build_info-$$key.json build/cuda
	CONDACC_LIBRARIES=build/cuda $(WHEEL)

# The wheels for all TensorFlows, for x86-64 and aarch64, and the tests with each TensorFlow; see
# release/versions.py.
$(RELEASE): release/requirements.txt | configure
	$(PYTHON) -m venv --clear .tools/release
	.tools/release/bin/pip install --quiet --disable-pip-version-check -r $<
	touch $@

wheels: $(RELEASE)
	.tools/release/bin/python release/versions.py libraries
	.tools/release/bin/python release/versions.py wheel

test-versions: $(RELEASE)
	.tools/release/bin/python release/versions.py test

# Checks the syntax of every source with the oldest compilers that are supported.
test-compilers: configure
	$(PYTHON) release/compilers.py

# mypy and pyright as users have them, with stubs of TensorFlow, in an environment of their own.
$(TYPES): tests/docs/type_checks/requirements.txt tests/docs/type_checks/package.json | configure
	$(PYTHON) -m venv --clear .tools/types
	.tools/types/bin/pip install --quiet --disable-pip-version-check -r $<
	cp tests/docs/type_checks/package.json .tools/types
	npm install --loglevel=error --no-fund --no-audit --prefix .tools/types
	touch $@

lint: configure $(TYPES)
	$(PYTHON) -m ruff check .
	$(PYTHON) -m ruff format --check .
	$(PYTHON) -m mypy
	$(PYTHON) -m mypy --no-namespace-packages $(EMULATED_MYPY)
	$(PYTHON) -m mypy --no-namespace-packages $(PLANTED)
	$(PYTHON) -m mypy --no-namespace-packages $(MUTANTS)
	$(PYTHON) -m tests.docs.type_checks.check
	$(CLANG_FORMAT) --dry-run -Werror $(CXX_SOURCES)
	find cc/core -name '*.h' -o -name '*.cc' | xargs -P 2 -n 8 $(CLANG_TIDY) --quiet

# The documentation and the API reference, as a site of files. A broken link or anchor is an error.
$(DOCS): docs/site/requirements.txt
	$(or $(CONDACC_PYTHON),python3) -m venv --clear .tools/docs
	.tools/docs/bin/pip install --quiet --disable-pip-version-check -r $<
	touch $@

docs: $(DOCS)
	NO_MKDOCS_2_WARNING=1 .tools/docs/bin/mkdocs build --strict
	@echo "The documentation is build/docs/index.html."

# The pictures of the documentation, from real runs. Needs a quiet machine.
pictures: build
	$(PYTHON) docs/images/draw.py

format: configure
	$(PYTHON) -m ruff check --fix .
	$(PYTHON) -m ruff format .
	$(CLANG_FORMAT) -i $(CXX_SOURCES)

clean:
	rm -rf build dist *.egg-info tf_condacc/_condacc_ops-*.so tf_condacc/_build_info-*.json
	if [ -x $(BAZEL) ]; then $(BAZEL) clean; fi
