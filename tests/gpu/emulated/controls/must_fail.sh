#!/usr/bin/env bash
# Succeeds if a program fails and says why.
#
# usage: must_fail.sh PATTERN PROGRAM [ARGUMENTS...]
set -euo pipefail

readonly PATTERN=$1
if output=$("${@:2}" 2>&1); then
  echo "the planted bug was not noticed by ${*:2}" >&2
  exit 1
fi
if ! grep -q -e "$PATTERN" <<<"$output"; then
  echo "failed without saying '$PATTERN':" >&2
  echo "$output" >&2
  exit 1
fi
grep -m 3 -e "$PATTERN" <<<"$output"
