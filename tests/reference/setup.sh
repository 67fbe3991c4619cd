#!/usr/bin/env bash
# Makes a virtual environment with TensorFlow 1.15.5, or finds the one that it made before.
#
#   setup.sh FOLDER
#
# TensorFlow 1.15 needs Python 3.7: python3.7 on the PATH or, without one, any 3.7 of pyenv. The
# last line on stdout is the environment's Python. If there is no such Python, or the packages
# cannot be installed, the exit status is 3 and the last line on stderr is the reason.
set -euo pipefail

folder=$1
python=$folder/bin/python
packages=("tensorflow==1.15.5" "protobuf<3.21" "numpy<1.19")

give_up() {
  echo "$1" >&2
  exit 3
}

find_python37() {
  local candidate
  for candidate in "$(command -v python3.7 || true)" \
    "${PYENV_ROOT:-$HOME/.pyenv}"/versions/3.7*/bin/python; do
    # A pyenv shim may stand for a version that is not active, and a build may lack venv.
    if [[ -n $candidate ]] && "$candidate" -c 'import ensurepip, venv' 2>/dev/null; then
      echo "$candidate"
      return
    fi
  done
}

if [[ ! -e $folder/ready ]]; then
  python37=$(find_python37)
  [[ -n $python37 ]] || give_up "there is no Python 3.7, in the PATH or from pyenv"
  "$python37" -m venv --clear "$folder" >&2 || give_up "$python37 cannot make $folder"
  "$python" -m pip install --quiet "${packages[@]}" >&2 ||
    give_up "pip cannot install ${packages[*]} for $python37"
  "$python" -c 'import tensorflow' 2>/dev/null || give_up "TensorFlow 1.15.5 cannot be imported"
  touch "$folder/ready"
fi
echo "$python"
