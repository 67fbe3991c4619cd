#!/usr/bin/env bash
# Runs all checks that need a GPU, in less than ten minutes without step 5, on a machine that has
# nvcc, g++ and a GPU. Only step 5 needs TensorFlow. GoogleTest is not needed.
#
# usage: tests/gpu/run.sh [OUTPUT_DIRECTORY]
#
# 1. builds the launchers, their tests, and the library for the benchmark
# 2. runs the launchers' tests
# 3. the benchmark beside PyTorch and CuPy, where Python has PyTorch
# 4. compute-sanitizer on the small tests, where it is installed
# 5. only if TENSORFLOW_PARTS or CONDACC_PYTHON is set: the emulated GPU's tests of the plugin, a
#    benchmark in TensorFlow, and the Python tests. With CONDACC_PYTHON, the plugin is built, and
#    all Python tests run, with no time limit.
#
# If a step fails or takes too long, the others run nevertheless. The results are two files:
# report.txt, with everything that was printed, and bench.json.
#
# Environment:
#   CUDA_HOME   The CUDA toolkit (/usr/local/cuda, else that of nvcc on PATH).
#   CUDA_ARCHS  The architectures to compile for, such as sm_90 (sm_80,sm_90,compute_90).
#   CXX         The C++ compiler (g++).
#   PYTHON      For the benchmark and TENSORFLOW_PARTS (python3).
#   BUILD       Where to build (a temporary folder, which is removed).
#   TF_CONDACC_TEST_SEED, TF_CONDACC_TEST_ROUNDS   Passed on to the tests.
#   STEPS       The steps to run (build run_tests benchmark sanitize plugin).
#   TENSORFLOW_PARTS  A folder with TensorFlow and the plugin, packed by pack_tensorflow.py for the
#                     version of PYTHON.
#   CONDACC_PYTHON    A Python with a TensorFlow that sees the GPU, and what `make build` needs.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

OUT=$(mkdir -p "${1:-build/gpu}" && cd "${1:-build/gpu}" && pwd)
CXX=${CXX:-g++}
PYTHON=${PYTHON:-python3}
FAILED=()
if [[ -n ${BUILD:-} ]]; then
  BUILD=$(mkdir -p "$BUILD" && cd "$BUILD" && pwd)
else
  BUILD=$(mktemp -d)
  trap 'rm -rf "$BUILD"' EXIT
fi
readonly OUT BUILD CXX PYTHON
readonly BUILD_SECONDS=200 TEST_SECONDS=60 BENCHMARK_SECONDS=120 SANITIZER_SECONDS=40
readonly PLUGIN_TEST_SECONDS=120 PYTHON_TEST_SECONDS=400

say() { echo; echo "=== $* ($((SECONDS / 60)) min $((SECONDS % 60)) s)"; }
fail() { echo "FAILED: $*"; FAILED+=("$*"); }

# limited NAME SECONDS COMMAND...: runs a command, and notes its name if it fails or takes too long.
limited() {
  local status=0
  timeout --signal=INT --kill-after=20 "$2" "${@:3}" || status=$?
  if ((status == 124 || status == 137)); then fail "$1 took more than $2 s"; return; fi
  if ((status)); then fail "$1"; fi
}

# Prints the toolkit's folder.
find_cuda() {
  local dir
  for dir in ${CUDA_HOME:-} /usr/local/cuda \
    "$(dirname "$(dirname "$(readlink -f "$(command -v nvcc || echo /none/none)")")")"; do
    if [[ -x $dir/bin/nvcc && -f $dir/include/cuda_runtime.h ]]; then echo "$dir"; return; fi
  done
  echo "no CUDA toolkit (nvcc): install it or set CUDA_HOME" >&2
  return 1
}

# Prints -gencode options: machine code for each sm_XX, PTX for each compute_XX.
gencode() {
  local arch
  for arch in ${1//,/ }; do echo "-gencode=arch=compute_${arch#*_},code=$arch"; done
}

# Starts a compiler as soon as a processor is free. Its messages go to a separate file.
compile() {
  local object=$1
  while (($(jobs -rp | wc -l) >= $(nproc))); do wait -n || true; done
  timeout "$BUILD_SECONDS" "${@:2}" -o "$object" >"$object.log" 2>&1 &
}

# Waits for the compilers. Notes what was not built, with the first messages of its compiler.
finish() {
  local log
  wait
  for log in "$@"; do
    if [[ ! -f ${log%.log} ]]; then
      fail "build of $(basename "${log%.log}")"
      head -20 "$log"
    fi
  done
}

build() {
  local source archs options libraries
  mapfile -t archs < <(gencode "${CUDA_ARCHS:-sm_80,sm_90,compute_90}")
  options=(-std=c++17 -O2 -fPIC -I. -I"$CUDA/include" -Itests/gpu/stand_in -ffp-contract=off)
  for source in cc/gpu/*.cu.cc; do
    compile "$BUILD/$(basename "$source").o" "$CUDA/bin/nvcc" -x=cu -std=c++17 -O3 -fmad=false \
      -Xcompiler=-fPIC -I. "${archs[@]}" --threads 0 -ccbin="$CXX" -c "$source"
  done
  while read -r source; do
    compile "$BUILD/${source//\//_}.o" "$CXX" "${options[@]}" -O3 -c "$source"
  done < <(find cc/core -name '*.cc')
  compile "$BUILD/stand_in.o" "$CXX" "${options[@]}" -c tests/gpu/stand_in/main.cc
  finish "$BUILD"/*.o.log
  libraries=("$(find -L "$CUDA" "/usr/lib/$(uname -m)-linux-gnu" -maxdepth 4 -name libcudart_static.a \
    -print -quit 2>/dev/null)" -ldl -lpthread -lrt)
  for source in tests/cc/gpu/*_gpu_test.cc; do
    compile "$BUILD/$(basename "$source" .cc)" "$CXX" "${options[@]}" "$source" "$BUILD"/*.o \
      "${libraries[@]}"
  done
  compile "$BUILD/libgpu_launchers.so" "$CXX" "${options[@]}" -shared tests/cc/gpu/gpu_launchers.cc \
    "$BUILD"/*.cu.cc.o "$BUILD"/cc_core_*.o "${libraries[@]}"
  finish "$BUILD"/*_gpu_test.log "$BUILD/libgpu_launchers.so.log"
}

run_tests() {
  local test
  export TF_CONDACC_TEST_NEEDS_GPU=1
  for test in "$BUILD"/*_gpu_test; do
    limited "$(basename "$test")" "$TEST_SECONDS" "$test"
  done
}

benchmark() {
  if ! "$PYTHON" -c 'import torch' 2>/dev/null; then echo "left out: no PyTorch"; return; fi
  limited benchmark "$BENCHMARK_SECONDS" "$PYTHON" tests/gpu/bench \
    "$BUILD/libgpu_launchers.so" --json "$OUT/bench.json"
}

sanitize() {
  local tool check said test
  tool=$(command -v compute-sanitizer || echo "$CUDA/bin/compute-sanitizer")
  if [[ ! -x $tool ]]; then echo "left out: no compute-sanitizer"; return; fi
  for test in dense_launch sparse_merge accumulator; do
    if [[ ! -x $BUILD/${test}_gpu_test ]]; then echo "left out: the tests were not built"; return; fi
  done
  said=$(timeout "$SANITIZER_SECONDS" "$tool" "$BUILD/dense_launch_gpu_test" \
    --gtest_filter='*InPlace*' 2>&1) || true
  if grep -q 'not supported' <<<"$said"; then
    echo "left out: compute-sanitizer does not support this device"
    return
  fi
  # Of the launchers' kernels, only the one for long rows uses shared memory and barriers.
  for check in memcheck initcheck racecheck synccheck; do
    limited "$check of long rows" "$SANITIZER_SECONDS" "$tool" --tool $check \
      --error-exitcode 1 "$BUILD/sparse_merge_gpu_test" --gtest_filter='*InOrderOfArrival*'
  done
  for check in memcheck initcheck; do
    limited "$check of sparse merges" "$SANITIZER_SECONDS" "$tool" --tool $check \
      --error-exitcode 1 "$BUILD/sparse_merge_gpu_test" --gtest_filter='*Folds*:*ABadRow*'
    limited "$check of dense sums" "$SANITIZER_SECONDS" "$tool" --tool $check \
      --error-exitcode 1 "$BUILD/dense_launch_gpu_test" --gtest_filter='*InPlace*:*Complex*'
  done
  limited "memcheck of accumulators" "$SANITIZER_SECONDS" "$tool" --error-exitcode 1 \
    "$BUILD/accumulator_gpu_test" --gtest_filter='*MayEnd*:*States*'
}

# Lets Python and the loader find the packed TensorFlow. It was built for CUDA 12, and works with
# the libraries of CUDA 13 under the old names.
unpack_tensorflow() {
  local site=$BUILD/tensorflow name library
  mkdir -p "$site"
  cat "$TENSORFLOW_PARTS"/part.* | tar -x -C "$site" -I 'xz -T0' || return
  # A library in tf_condacc that is newer than the packed one is kept.
  cp --update --preserve=timestamps "$site"/lib/_* tf_condacc
  for name in libcublas.so.12 libcublasLt.so.12 libcufft.so.11 libcusolver.so.11; do
    library=$(find -L "$CUDA" -maxdepth 4 -name "${name%.*}.[0-9][0-9]" -print -quit)
    ln -sf "$library" "$site/lib/$name"
  done
  export PYTHONPATH=$site LD_LIBRARY_PATH=$site/lib:$(dirname "$library")
}

plugin() {
  local python=$PYTHON seconds=$PYTHON_TEST_SECONDS tests
  local sees='import tensorflow as tf; raise SystemExit(not tf.config.list_physical_devices("GPU"))'
  tests=(tests/{accumulators,towers,drop_stale,sync_replicas,estimator,keras,distribute})
  if [[ -n ${TENSORFLOW_PARTS:-} ]]; then
    unpack_tensorflow || { fail "unpacking TensorFlow"; return; }
  elif [[ -n ${CONDACC_PYTHON:-} ]]; then
    python=$CONDACC_PYTHON seconds=0 tests=(tests)
    make build || { fail "build of the plugin"; return; }
  else
    echo "left out: neither TENSORFLOW_PARTS nor CONDACC_PYTHON is set"
    return
  fi
  # Without these, products of matrices are not exact, and one process takes all memory.
  export NVIDIA_TF32_OVERRIDE=0 TF_FORCE_GPU_ALLOW_GROWTH=true
  if ! "$python" -c "$sees"; then fail "the TensorFlow of $python sees no GPU"; return; fi
  export PYTHONPATH=tests/gpu/real:tests/gpu/emulated/plugin${PYTHONPATH:+:$PYTHONPATH}
  local pytest=("$python" -m pytest -p no:cacheprovider -p failures_at_once -q --no-summary
                --tb=short --device gpu)
  limited "tests of the emulated GPU on this one" "$PLUGIN_TEST_SECONDS" "${pytest[@]}" \
    -p emulated_gpu tests/gpu/emulated/plugin --ignore=tests/gpu/emulated/plugin/test_waits.py
  limited "benchmark in TensorFlow" "$BENCHMARK_SECONDS" "$python" tests/gpu/bench_in_tensorflow.py
  limited "Python tests" "$seconds" "${pytest[@]}" -m "not long and not reference and not aarch64" --dist worksteal \
    -n "$(($(nproc) > 3 ? $(nproc) - 2 : 1))" "${tests[@]}"
}

main() {
  local step
  nvidia-smi || { echo "this machine has no GPU" >&2; exit 1; }
  CUDA=$(find_cuda)
  readonly CUDA
  for step in ${STEPS:-build run_tests benchmark sanitize plugin}; do
    say "${step//_/ }"
    "$step"
  done
  say "done"
  if ((${#FAILED[@]})); then printf 'failed: %s\n' "${FAILED[@]}"; exit 1; fi
}

main 2>&1 | tee "$OUT/report.txt"
