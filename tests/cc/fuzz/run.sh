#!/usr/bin/env bash
# Lets libFuzzer look for calls of the core that end in anything else than the model's outcome, with
# the address and undefined behaviour sanitizers.
#
# usage: tests/cc/fuzz/run.sh SECONDS [states]
#
# With `states`, it lets libFuzzer look for saved states instead, which must be refused or restored.
#
# It needs clang 14 or newer with its run-time library, which Debian packages separately: it is
# unpacked into .tools. Where there is neither, a sentence says so and the exit status is 0. What is
# found is left in build/fuzz/calls/found: `build/fuzz/calls/fuzz FILE` makes its calls again.
set -euo pipefail
seconds=${1:?"usage: tests/cc/fuzz/run.sh SECONDS [states]"}
what=${2:-calls}
cd "$(dirname "${BASH_SOURCE[0]}")/../../.."
build=build/fuzz/$what
tools=$PWD/.tools/libfuzzer
mkdir -p "$build/found" "$build/corpus" "$build/given"

give_up() {
  echo "Fuzzing left out: $1" >&2
  exit 0
}

can_fuzz() {
  echo 'extern "C" int LLVMFuzzerTestOneInput(const unsigned char*, unsigned long) { return 0; }' |
    "$@" -fsanitize=fuzzer,address,undefined -x c++ - -o "$build/probe" 2>/dev/null
}

# Makes a folder of clang's own files with its run-time library, and prints it.
unpack_runtime() {
  local version=$1 own
  own=$("$clang" -print-resource-dir)
  if [[ ! -e $tools/ready ]]; then
    rm -rf "$tools" && mkdir -p "$tools/packages"
    (cd "$tools/packages" && apt-get -qq download "libclang-rt-$version-dev") >&2 || return 1
    dpkg -x "$tools"/packages/*.deb "$tools/packages" || return 1
    cp -a "$own" "$tools/clang"
    cp -a "$tools"/packages/usr/lib/llvm-"$version"/lib/clang/*/. "$tools/clang" || return 1
    touch "$tools/ready"
  fi
  echo "$tools/clang"
}

clang=$(command -v clang++ clang++-{20..14} | head -1) || true
[[ -n $clang ]] || give_up "there is no clang++"
compiler=("$clang")
if ! can_fuzz "${compiler[@]}"; then
  version=$("$clang" -dumpversion | cut -d. -f1)
  folder=$(unpack_runtime "$version") || give_up "libclang-rt-$version-dev cannot be downloaded"
  compiler+=(-resource-dir "$folder")
  can_fuzz "${compiler[@]}" || give_up "$clang cannot link libFuzzer"
fi

defines=()
[[ $what == calls ]] || defines=(-DCONDACC_FUZZED=WrongStateIn)
gtest=$(sed -n 's/.*CONDACC_GTEST_DIR=\(\/[^"]*\).*/\1/p' .condacc.bazelrc | head -1)
[[ -n $gtest ]] || give_up "GoogleTest is missing, whose macros the test buffers use"
for source in cc/core/*/*.cc tests/cc/fuzz/calls.cc tests/cc/fuzz/states.cc \
  tests/cc/fuzz/libfuzzer.cc; do
  echo "#include \"$source\""
done >"$build/all.cc"
"${compiler[@]}" -std=c++17 -O1 -g -ffp-contract=off -fsanitize=fuzzer,address,undefined \
  -fno-sanitize-recover=undefined "${defines[@]}" -I. -I"$gtest/include" "$build/all.cc" \
  "$(find "$gtest" -name libgtest.a | head -1)" -lpthread -o "$build/fuzz"
number=0
if [[ $what == calls ]]; then
  while read -r digits; do
    # shellcheck disable=SC2059  # The digits are the format.
    printf "$(sed 's/../\\x&/g' <<<"$digits")" >"$build/given/$((++number))"
  done <tests/cc/fuzz/corpus.txt
fi
# More programs run in a second with short call stacks of allocations, a small quarantine of freed
# memory, inputs that are chosen without libFuzzer's model of rare features, and a corpus that is
# read once. All checks stay on. A file that is found shows whole stacks when it is run again without
# these options.
export ASAN_OPTIONS=malloc_context_size=1:quarantine_size_mb=4:thread_local_quarantine_size_kb=64
exec "$build/fuzz" -max_total_time="$seconds" -max_len=700 -entropic=0 -reload=0 \
  -print_final_stats=1 -artifact_prefix="$build/found/" "$build/corpus" "$build/given"
