#!/usr/bin/env bash
# Runs the plugin in TensorFlow on the emulated GPU: its own checks, the control, and the Python
# tests that need no TensorFlow kernel on a GPU. Call it with `make test-gpu-emulated-plugin`, or
# after ./configure.sh.
#
# usage: tests/gpu/emulated/plugin/run.sh [PYTEST_ARGUMENTS...]   (with arguments: these tests only)
#
# Environment:
#   CONDACC_PYTHON          A Python with TensorFlow (.venv/bin/python).
#   TF_CONDACC_TEST_SEED    The seed of random tests.
#   TF_CONDACC_TEST_ROUNDS  The number of random accumulators (12).
#   EMULATED_DELAY_US       How late a stream may be at each fourth piece of work (1000).
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../../../.."

readonly ROOT=$PWD HERE=tests/gpu/emulated
readonly PACKAGE=$ROOT/build/emulated_gpu
PYTHON=${CONDACC_PYTHON:-.venv/bin/python}
readonly PYTHON=$(cd "$(dirname "$PYTHON")" && pwd)/$(basename "$PYTHON")
readonly PYTEST=("$PYTHON" -m pytest -p emulated_gpu -p no:cacheprovider -q --device gpu)
readonly LIBRARIES=(_condacc_ops.so libemulated_device.so)

say() { echo "=== $* ($((SECONDS / 60)) min $((SECONDS % 60)) s)"; }

build() {
  .tools/bazelisk build //:build_info "${LIBRARIES[@]/#///$HERE:}"
}

# Copies the Python package and its tests, with the emulated library instead of the real one.
copy_package() {
  rm -rf "$PACKAGE"
  mkdir -p "$PACKAGE"
  cp -r condacc tf_condacc tests benchmarks pyproject.toml "$PACKAGE"
  local key
  key=$(sed -n 's/.*CONDACC_TF_KEY=\(.*\)"$/\1/p' .condacc.bazelrc)
  cp -f "bazel-bin/$HERE/_condacc_ops.so" "$PACKAGE/tf_condacc/_condacc_ops-$key.so"
  cp -f bazel-bin/_build_info.json "$PACKAGE/tf_condacc/_build_info-$key.json"
  cp "bazel-bin/$HERE/libemulated_device.so" "$PACKAGE"
}

# Runs the kernels on a different stream than TensorFlow's, so sums or indices must be wrong.
control() {
  EMULATED_WRONG_STREAM=1 "$HERE/controls/must_fail.sh" 'Arrays are not equal\|; index is' \
    "${PYTEST[@]}" -x "$HERE/plugin/test_accumulators.py"
}

# Leaves out TensorFlow's own classes, which have no GPU kernels, and a SavedModel, whose ops are on
# the CPU. The listed files use no op that TensorFlow itself runs on a GPU.
project_tests() {
  local dense=(arguments/test_{accepted,construction} test_programs
               execution/test_{control_flow,distributed,sharing})
  local sparse=(arguments checks)
  local saving=(checkpoints savers gradient_accumulators)
  local files=("${dense[@]/#/tests/accumulators/}"
               "${sparse[@]/#/tests/accumulators/sparse/test_}"
               "${saving[@]/#/tests/accumulators/saving/test_}")
  EMULATED_DELAY_US=${EMULATED_DELAY_US:-300} "${PYTEST[@]}" \
    -m "not long" -k "(not tensorflow or tf_condacc) and not saved_models" "${files[@]/%/.py}"
}

main() {
  say "build"
  build
  copy_package
  cd "$PACKAGE"
  export PYTHONPATH=$HERE/plugin
  if (($#)); then
    "${PYTEST[@]}" "$@"
    return
  fi
  say "accumulators, towers and the gate"
  "${PYTEST[@]}" "$HERE/plugin"
  say "control: kernels on a wrong stream"
  control
  say "the project's Python tests"
  project_tests
  say "done"
}

main "$@"
