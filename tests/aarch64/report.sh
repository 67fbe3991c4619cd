#!/usr/bin/env bash
# Prints what a report from an aarch64 machine needs, with five commands: what the machine is, the
# sizes of its pages, what is installed, the C++ tests under ThreadSanitizer, and the checks of the
# plugin in TensorFlow. Run it in the clone, with the Python in which tf_condacc is installed:
#
#   tests/aarch64/report.sh [PYTHON] >report.txt
#
# It takes about ten minutes, and goes on if a command fails, because the report should say so.
set -u
python=$(command -v "${1:-python}") || { echo "no Python: ${1:-python}" >&2; exit 1; }
python=$(realpath --no-symlinks "$python")  # The commands run in other folders.
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

show() {
  echo "=== $*"
  "$@" 2>&1
  echo "=== status $?"
}

show lscpu
show bash -c 'uname -srm; getconf PAGESIZE; cat /sys/kernel/mm/transparent_hugepage/hpage_pmd_size'
# Elsewhere than in the clone, Python imports the installed package.
cp tests/aarch64/plugin_checks.py "$scratch"
show env -C "$scratch" "$python" -m condacc info
show env CONDACC_PYTHON="$python" make tsan
show env -C "$scratch" TF_CPP_MIN_LOG_LEVEL=3 "$python" plugin_checks.py
