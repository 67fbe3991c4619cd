#!/usr/bin/env bash
# All checks that need a GPU, in one run, on a machine that has nvcc, g++ and a GPU. Neither Bazel
# nor TensorFlow is needed for the launchers' part.
#
# usage: tests/gpu/run.sh [OUTPUT_DIRECTORY]
#
# 1. builds the launchers, and the library for the benchmark
# 2. builds and runs the launchers' tests
# 3. compute-sanitizer on the small ones of them, where it is installed
# 4. the benchmark beside PyTorch and CuPy, where Python has PyTorch
# 5. where Python has a TensorFlow that sees the GPU: the plugin's tests on it
#
# Environment:
#   CUDA_HOME   the CUDA toolkit (/usr/local/cuda, else that of nvcc on PATH)
#   CXX         the C++ compiler (g++)
#   GTEST_DIR   a folder with include/gtest (/usr, else what configure.sh unpacked in .tools)
#   PYTHON      for the benchmark (python3)
#   CONDACC_PYTHON  a Python with TensorFlow, for the plugin (PYTHON)
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

OUT=$(mkdir -p "${1:-build/gpu}" && cd "${1:-build/gpu}" && pwd)
CXX=${CXX:-g++}
PYTHON=${PYTHON:-python3}
CUDA=""
FAILED=()

say() { echo; echo "=== $*"; }
check() { local what=$1; shift; say "$what"; "$@" || FAILED+=("$what"); }

# Sets CUDA, as configure.sh does.
find_cuda() {
  local dir
  for dir in ${CUDA_HOME:-} /usr/local/cuda "$(dirname "$(dirname "$(readlink -f "$(command -v nvcc)")")")"; do
    if [[ -x $dir/bin/nvcc && -f $dir/include/cuda_runtime.h ]]; then CUDA=$dir; return; fi
  done
  echo "no CUDA toolkit (nvcc): install it or set CUDA_HOME" >&2
  return 1
}

find_gtest() {
  local dir
  for dir in ${GTEST_DIR:-} /usr /usr/local "$PWD/.tools/gtest/usr"; do
    if [[ -f $dir/include/gtest/gtest.h ]]; then echo "$dir"; return; fi
  done
  echo "no GoogleTest: install it (Debian: libgtest-dev) or set GTEST_DIR" >&2
  return 1
}

# The first file so named in some folders, of which some may be missing.
find_file() {
  local name=$1 depth=$2 found
  found=$(find -L "${@:3}" -maxdepth "$depth" -name "$name" -print -quit 2>/dev/null) || true
  if [[ -z $found ]]; then echo "no $name in ${*:3}" >&2; return 1; fi
  echo "$found"
}

build() {
  local source object cudart
  local archs=(-gencode=arch=compute_80,code=sm_80 -gencode=arch=compute_90,code=sm_90
               -gencode=arch=compute_90,code=compute_90)
  OPTIONS=(-std=c++17 -O2 -fPIC -Wall -I. -I"$CUDA/include" -ffp-contract=off)
  cudart=$(find_file libcudart_static.a 4 "$CUDA" /usr/lib/x86_64-linux-gnu)
  LIBRARIES=("$cudart" -ldl -lpthread -lrt)
  OBJECTS=()
  for source in cc/gpu/*.cu.cc; do
    object=$OUT/$(basename "$source" .cu.cc).cu.o
    "$CUDA/bin/nvcc" -x=cu -std=c++17 -O3 -fmad=false -Xcompiler=-fPIC -I. "${archs[@]}" \
      --threads 0 -ccbin="$CXX" -c "$source" -o "$object"
    OBJECTS+=("$object")
  done
  for source in cc/core/*/*.cc; do
    object=$OUT/$(basename "$source" .cc).o
    "$CXX" "${OPTIONS[@]}" -O3 -c "$source" -o "$object"
    OBJECTS+=("$object")
  done
  "$CXX" "${OPTIONS[@]}" -shared tests/cc/gpu/gpu_launchers.cc "${OBJECTS[@]}" "${LIBRARIES[@]}" \
    -o "$OUT/libgpu_launchers.so"
}

build_test() {
  "$CXX" "${OPTIONS[@]}" -I"$2/include" "$1" "${OBJECTS[@]}" "$3" "$(dirname "$3")/libgtest.a" \
    "${LIBRARIES[@]}" -o "$OUT/$(basename "$1" .cc)"
}

run_tests() {
  local test gtest gtest_main failed=0
  gtest=$(find_gtest) || return 1
  gtest_main=$(find_file libgtest_main.a 2 "$gtest/lib") || return 1
  for test in tests/cc/gpu/*_gpu_test.cc; do
    build_test "$test" "$gtest" "$gtest_main" && "$OUT/$(basename "$test" .cc)" || failed=1
  done
  return $failed
}

sanitize() {
  local tool=compute-sanitizer
  command -v $tool >/dev/null || tool=$CUDA/bin/compute-sanitizer
  if [[ ! -x $(command -v "$tool") ]]; then echo "left out: no compute-sanitizer"; return; fi
  if [[ ! -x $OUT/dense_sum_gpu_test ]]; then echo "left out: the tests were not built"; return; fi
  local failed=0 check said
  said=$("$tool" "$OUT/dense_sum_gpu_test" --gtest_filter='*InPlace*' 2>&1) || true
  if grep -q 'not supported' <<<"$said"; then
    echo "left out: compute-sanitizer does not support this device"
    return
  fi
  for check in memcheck racecheck initcheck; do
    "$tool" --tool $check --error-exitcode 1 "$OUT/sparse_merge_gpu_test" \
      --gtest_filter='*Folds*:*ABadRow*' || failed=1
    "$tool" --tool $check --error-exitcode 1 "$OUT/dense_sum_gpu_test" \
      --gtest_filter='*InPlace*:*Complex*' || failed=1
  done
  return $failed
}

benchmark() {
  if ! "$PYTHON" -c 'import torch' 2>/dev/null; then echo "left out: no PyTorch"; return; fi
  "$PYTHON" tests/gpu/bench.py "$OUT/libgpu_launchers.so" --json "$OUT/bench.json"
}

plugin() {
  export CONDACC_PYTHON=${CONDACC_PYTHON:-$(command -v "$PYTHON")}
  local sees='import tensorflow as tf; raise SystemExit(not tf.config.list_physical_devices("GPU"))'
  if ! "$CONDACC_PYTHON" -c "$sees" 2>/dev/null; then
    echo "left out: $CONDACC_PYTHON has no TensorFlow that sees a GPU"
    return
  fi
  make build && "$CONDACC_PYTHON" -m pytest --device gpu tests
}

nvidia-smi || { echo "this machine has no GPU" >&2; exit 1; }
say "build"
find_cuda
build
check "tests of the launchers" run_tests
check "compute-sanitizer" sanitize
check "benchmark" benchmark
check "tests of the plugin" plugin
say "done"
if ((${#FAILED[@]})); then printf 'failed: %s\n' "${FAILED[@]}" >&2; exit 1; fi
