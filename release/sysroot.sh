#!/usr/bin/env bash
# Unpacks the headers and libraries of an older Debian into a folder, and prints the compiler
# command that uses them: what it builds needs no symbols that are newer than that Debian. Nothing
# is installed. The compiler is that of CXX, or g++, and must compile for the processor.
#
# usage: release/sysroot.sh FOLDER [x86_64|aarch64]
set -euo pipefail

readonly SUITE=bullseye GCC=10 PROCESSOR=${2:-x86_64}
readonly TRIPLE=$PROCESSOR-linux-gnu
declare -rA ARCHITECTURES=([x86_64]=amd64 [aarch64]=arm64)
readonly PACKAGES=(libc6 libc6-dev linux-libc-dev libcrypt1 libcrypt-dev libgcc-s1 libgcc-$GCC-dev
                   libstdc++6 libstdc++-$GCC-dev libgtest-dev)
mkdir -p "$1"
readonly ROOT=$(cd "$1" && pwd)/root

"$(dirname "${BASH_SOURCE[0]}")/unpack.sh" "$1" "$SUITE" "${ARCHITECTURES[$PROCESSOR]}" \
  "${PACKAGES[@]}" >&2
headers=$ROOT/usr/include/c++/$GCC
# Come before this machine's folders, which the compiler would otherwise search first.
libraries=(-L"$ROOT/usr/lib/gcc/$TRIPLE/$GCC" -L"$ROOT/lib/$TRIPLE" -L"$ROOT/usr/lib/$TRIPLE")
printf '%s' "${CXX:-g++}"
printf ' %q' --sysroot="$ROOT" -nostdinc++ -isystem "$headers" \
  -isystem "$ROOT/usr/include/$TRIPLE/c++/$GCC" -isystem "$headers/backward" "${libraries[@]}"
