#!/usr/bin/env bash
# Sets up what the build needs, writes .condacc.bazelrc and reports what it set up. It asks nothing,
# uninstalls nothing, and does nothing if nothing has changed since the last run. It writes only
# git-ignored files: .venv, .tools, .bazeliskrc and .condacc.bazelrc.
#
# usage: ./configure.sh [--force]
#
# Environment:
#   CONDACC_PYTHON   A Python that has TensorFlow. By default .venv is created and used.
#   CONDACC_CUDA=0   Build without CUDA even if there is a toolkit.
#   CUDA_HOME        The CUDA toolkit to use.
#   CXX              The C++ compiler. The default is g++.
#   USE_BAZEL_VERSION, BAZELISK_BASE_URL   Passed on to bazelisk.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"

readonly ROOT="$PWD" RC=".condacc.bazelrc" TOOLS="$PWD/.tools"
readonly BAZELISK_VERSION=1.28.1 NPM_BAZEL_VERSION=2.1.0
readonly CUDA_ARCHS=sm_80,sm_90,compute_90
PYTHON="${CONDACC_PYTHON:-$ROOT/.venv/bin/python}"
readonly PYTHON=$(command -v "$PYTHON" || echo "$PYTHON")

say() { echo "configure.sh: $*" >&2; }
die() { say "error: $*"; exit 1; }
have() { command -v "$1" >/dev/null 2>&1; }

# Prints one line that changes whenever the configuration has to be made again.
configuration_key() {
  local files=(configure.sh .bazelversion requirements.txt requirements-dev.txt
               condacc/_version.py condacc/_find_tensorflow.py condacc/libraries.py
               cc/supported_compiler.h)
  echo "# key: $(sha256sum "${files[@]}" | sha256sum | cut -c1-16) python=$PYTHON" \
       "cuda=${CONDACC_CUDA:-1},${CUDA_HOME:-} cxx=${CXX:-g++} bazel=${USE_BAZEL_VERSION:-}"
}

# Succeeds if the files that the last configuration found ('# found: PATH' lines) still exist.
findings_exist() {
  local path
  while read -r path; do
    [[ -e $path ]] || return 1
  done < <(sed -n 's/^# found: //p' "$RC")
}

up_to_date() {
  [[ -f $RC && $(head -1 "$RC") == "$(configuration_key)" ]] && findings_exist
}

make_venv() {
  local stamp=.venv/requirements.sha256 sums
  have python3 || die "python3 not found; install it (Debian: apt-get install python3 python3-venv)"
  python3 -c 'import sys; sys.exit(not (3, 10) <= sys.version_info < (3, 14))' ||
    die "python3 is $(python3 -V 2>&1); Python 3.10 to 3.13 is needed, or another Python that has" \
        "TensorFlow in CONDACC_PYTHON"
  python3 -c 'import ensurepip, venv' 2>/dev/null ||
    die "python3 has no venv module; install it (Debian: apt-get install python3-venv)"
  sums=$(sha256sum requirements.txt requirements-dev.txt)
  [[ -x $PYTHON && -f $stamp && $(cat "$stamp") == "$sums" ]] && return
  say "Installing the Python packages of requirements-dev.txt into .venv."
  [[ -x $PYTHON ]] || python3 -m venv .venv
  "$PYTHON" -m pip install -qq --disable-pip-version-check -r requirements-dev.txt ||
    die "pip could not install requirements-dev.txt; its message is above"
  echo "$sums" >"$stamp"
}

# Sets TF_DIR, TF_VERSION and TF_RECORD (the installed distribution's own directory), and TF_KEY,
# under which libraries are kept; see condacc/libraries.py.
# Python's -I skips what pip's build isolation puts before the installed packages.
find_tensorflow() {
  local found name
  [[ -x $PYTHON ]] || die "CONDACC_PYTHON=$PYTHON is not a Python interpreter"
  found=$("$PYTHON" -I condacc/_find_tensorflow.py)
  [[ -n $found ]] || die "no TensorFlow in $PYTHON; install it ($PYTHON -m pip install" \
         "tensorflow==2.21.*) or name another Python in CONDACC_PYTHON"
  { read -r name; read -r TF_VERSION; read -r TF_DIR; read -r TF_RECORD; } <<<"$found"
  TF_KEY=$("$PYTHON" -I -c 'import sys; sys.path.insert(0, "."); from condacc import libraries
print(libraries.key_of(sys.argv[1]))' "$TF_VERSION")
  [[ -f $TF_DIR/libtensorflow_framework.so.2 && -d $TF_DIR/include ]] ||
    die "TensorFlow at $TF_DIR has no headers or no libtensorflow_framework.so.2"
}

# Sets COMPILER (a path), COMPILER_NAME ("g++ 12.2.0") and COMPILER_KIND (gcc or clang).
find_compiler() {
  local wanted="${CXX:-g++}" version
  have "$wanted" || die "C++ compiler $wanted not found; install it (Debian: apt-get install g++) or set CXX"
  COMPILER=$(command -v "$wanted")
  version=$("$COMPILER" -dumpfullversion 2>/dev/null || "$COMPILER" -dumpversion)
  "$COMPILER" -std=c++17 -Werror -x c++ -fsyntax-only cc/supported_compiler.h 2>/dev/null ||
    die "$COMPILER $version is too old; install g++ 11 or clang 14, or newer, or set CXX"
  COMPILER_NAME="$(basename "$COMPILER") $version"
  COMPILER_KIND=gcc
  if "$COMPILER" --version | grep -q clang; then COMPILER_KIND=clang; fi
}

# Prints the folders in which a CUDA toolkit may be, the preferred one first.
cuda_candidates() {
  if [[ -n ${CUDA_HOME:-} ]]; then echo "$CUDA_HOME"; fi
  echo /usr/local/cuda
  if have nvcc; then dirname "$(dirname "$(readlink -f "$(command -v nvcc)")")"; fi
  "$PYTHON" -I -c 'import sysconfig; print(sysconfig.get_path("purelib") + "/nvidia/cu13")'
}

# Succeeds if TensorFlow's headers fully declare what the kernels use of GPU streams.
tensorflow_has_streams() { printf '2.20\n%s\n' "$TF_VERSION" | sort --check=quiet --version-sort; }

# Sets CUDA_DIR, CUDART and CUDA_VERSION; all empty for a CPU-only build.
find_cuda() {
  local dir lib candidates targets=(targets/x86_64-linux/lib)
  CUDA_DIR="" CUDART="" CUDA_VERSION=""
  # A toolkit may also have the libraries of other processors, for cross-compilers. Those for
  # servers with aarch64 are called sbsa; Jetson's have the name of the processor.
  if [[ $(uname -m) == aarch64 ]]; then
    targets=(targets/sbsa-linux/lib targets/aarch64-linux/lib)
  fi
  if [[ ${CONDACC_CUDA:-1} == 0 ]] || ! tensorflow_has_streams; then return; fi
  mapfile -t candidates < <(cuda_candidates)
  for dir in "${candidates[@]}"; do
    [[ -x $dir/bin/nvcc && -f $dir/include/cuda_runtime.h ]] || continue
    for lib in lib64 lib "${targets[@]}" "lib/$(uname -m)-linux-gnu"; do
      [[ -f $dir/$lib/libcudart_static.a ]] || continue
      CUDA_DIR=$dir CUDART=$dir/$lib/libcudart_static.a
      CUDA_VERSION=$("$dir/bin/nvcc" --version | sed -n 's/.*release \([0-9.]*\),.*/\1/p')
      return
    done
  done
}

has_gtest() {
  [[ -f $1/include/gtest/gtest.h ]] || return 1
  GTEST_LIB_DIR=$(dirname "$(find -L "$1/lib" "$1/lib64" -maxdepth 2 -name libgtest_main.a \
                               -print -quit 2>/dev/null)")
  [[ -f $GTEST_LIB_DIR/libgtest.a ]] && GTEST_DIR=$1
}

# Sets GTEST_DIR and GTEST_LIB_DIR; both are empty if GoogleTest is not available. Needs no root,
# because the Debian package is unpacked, not installed.
find_gtest() {
  local dir
  for dir in /usr /usr/local "$TOOLS/gtest/usr"; do has_gtest "$dir" && return; done
  if have apt-get && have dpkg; then
    mkdir -p "$TOOLS/gtest"
    if (cd "$TOOLS/gtest" && { apt-get download libgtest-dev ||
          { [[ $(id -u) == 0 ]] && apt-get update && apt-get download libgtest-dev; }; } &&
        dpkg -x libgtest-dev_*.deb .) >"$TOOLS/gtest/log" 2>&1; then
      has_gtest "$TOOLS/gtest/usr" && return
    fi
  fi
  GTEST_DIR="" GTEST_LIB_DIR=""
}

npm_install() {
  have npm || die "$2 not found and no npm to fetch it; install npm (Debian: apt-get install npm)"
  mkdir -p "$TOOLS"
  npm install --loglevel=error --no-fund --no-audit --prefix "$TOOLS" "$1" >&2 || die "npm could not install $1"
}

# Makes .tools/bazelisk a link to bazelisk.
find_bazelisk() {
  local path
  path=$(command -v bazelisk || true)
  if [[ -z $path ]]; then
    path=$TOOLS/node_modules/.bin/bazelisk
    [[ -x $path ]] || npm_install "@bazel/bazelisk@$BAZELISK_VERSION" bazelisk
  fi
  mkdir -p "$TOOLS"
  ln -sfn "$path" "$TOOLS/bazelisk"
}

# Succeeds if bazelisk can get the Bazel that .bazelversion names. It keeps what it has downloaded.
bazelisk_can_download() {
  local version base processor
  version=$(cat .bazelversion)
  processor=$(uname -m)
  base=${BAZELISK_BASE_URL:-https://releases.bazel.build/$version/release}
  compgen -G "${BAZELISK_HOME:-$HOME/.cache/bazelisk}/downloads/*/bazel-$version-*/bin" >/dev/null ||
    "$PYTHON" -I -c "import urllib.request as r, sys
r.urlopen(r.Request(sys.argv[1], method='HEAD'), timeout=5)" \
      "$base/bazel-$version-linux-${processor/aarch64/arm64}" 2>/dev/null
}

# If bazelisk cannot download Bazel, names in .bazeliskrc one that is installed or comes from npm.
choose_bazel() {
  local npm_bazel="$TOOLS/node_modules/@bazel/bazel-linux_x64/bazel-$NPM_BAZEL_VERSION-linux-x86_64"
  local mark="# Written by configure.sh" choice
  [[ -z ${USE_BAZEL_VERSION:-} ]] || return 0
  if [[ -f .bazeliskrc ]] && ! grep -qxF "$mark" .bazeliskrc; then return 0; fi
  rm -f .bazeliskrc
  if bazelisk_can_download; then return 0; fi
  if [[ -x /usr/bin/bazel-4 ]]; then
    choice=/usr/bin/bazel-4
  elif [[ $(uname -sm) == "Linux x86_64" ]]; then
    [[ -x $npm_bazel ]] || npm_install "@bazel/bazel-linux_x64@$NPM_BAZEL_VERSION" bazel
    choice=$npm_bazel
  else
    die "bazelisk cannot download Bazel; install it (Debian: apt-get install bazel-bootstrap)"
  fi
  printf '%s\nUSE_BAZEL_VERSION=%s\n' "$mark" "$choice" >.bazeliskrc
}

write_rc() {
  local name path bazel
  configuration_key
  bazel=$(sed -n 's/^USE_BAZEL_VERSION=\//\//p' .bazeliskrc 2>/dev/null || true)
  for path in "$TF_RECORD" "$COMPILER" "$CUDART" "$GTEST_DIR" "$TOOLS/bazelisk" "$bazel"; do
    if [[ -n $path ]]; then echo "# found: $path"; fi
  done
  # Bazel before 5 fetches these repositories from the network, although the build needs none.
  for name in rules_cc rules_java rules_proto remote_coverage_tools; do
    echo "build \"--override_repository=$name=$ROOT/third_party/stubs/$name\""
  done
  if [[ $COMPILER_KIND == clang ]]; then echo "build --copt=-Wthread-safety"; fi
  # The options are quoted, because paths may contain spaces.
  sed 's/^/build "--repo_env=/; s/$/"/' <<RC
PATH=/usr/local/bin:/usr/bin:/bin
CC=$COMPILER
CONDACC_VERSION=$(sed -n 's/^__version__ = "\(.*\)"/\1/p' condacc/_version.py)
CONDACC_PYTHON=$PYTHON
CONDACC_TF_DIR=$TF_DIR
CONDACC_TF_VERSION=$TF_VERSION
CONDACC_TF_KEY=$TF_KEY
CONDACC_COMPILER=$COMPILER_NAME
CONDACC_CXX=$COMPILER
CONDACC_CUDA_DIR=$CUDA_DIR
CONDACC_CUDART=$CUDART
CONDACC_CUDA_VERSION=$CUDA_VERSION
CONDACC_CUDA_ARCHS=${CUDA_DIR:+$CUDA_ARCHS}
CONDACC_GTEST_DIR=$GTEST_DIR
CONDACC_GTEST_LIB_DIR=$GTEST_LIB_DIR
RC
}

# Reports what was set up, one line for each part.
report() {
  say "Python: $PYTHON"
  say "TensorFlow: $TF_VERSION"
  say "C++ compiler: $COMPILER_NAME ($COMPILER)"
  if [[ -n $CUDA_DIR ]]; then
    say "CUDA: $CUDA_VERSION ($CUDA_DIR)"
  elif [[ ${CONDACC_CUDA:-1} == 0 ]]; then
    say "CUDA: left out because CONDACC_CUDA is 0; the build is for CPUs only"
  elif ! tensorflow_has_streams; then
    say "CUDA: left out because TensorFlow is older than 2.20; the build is for CPUs only"
  else
    say "CUDA: no toolkit with nvcc was found; the build is for CPUs only"
  fi
  if [[ -n $GTEST_DIR ]]; then
    say "GoogleTest: $GTEST_DIR"
  else
    say "GoogleTest: not found; the C++ tests are left out (Debian: apt-get install libgtest-dev)"
  fi
  say "Bazel: .tools/bazelisk"
  say "Settings of the build: $RC"
}

main() {
  if [[ ${1:-} != --force ]] && up_to_date; then return; fi
  find_compiler
  if [[ -z ${CONDACC_PYTHON:-} ]]; then make_venv; fi
  find_tensorflow
  find_cuda
  find_gtest
  find_bazelisk
  choose_bazel
  write_rc >"$RC.new"
  mv "$RC.new" "$RC"
  report
}

main "$@"
