#!/usr/bin/env bash
# Unpacks the headers and libraries of an older Debian into a folder, and prints the compiler
# command that uses them: what it builds needs no symbols that are newer than that Debian. Nothing
# is installed. Needs apt-get, dpkg and this machine's g++.
#
# usage: release/sysroot.sh FOLDER
set -euo pipefail

readonly SUITE=bullseye GCC=10 TRIPLE=x86_64-linux-gnu
readonly PACKAGES=(libc6 libc6-dev linux-libc-dev libcrypt1 libcrypt-dev libgcc-s1 libgcc-$GCC-dev
                   libstdc++6 libstdc++-$GCC-dev)
mkdir -p "$1"
readonly FOLDER=$(cd "$1" && pwd)
readonly ROOT=$FOLDER/root

# Runs apt-get with its own package list, from the mirror that this machine uses. It does not see
# the installed packages, whose versions it would otherwise ask for.
apt() {
  local mirror options=()
  mirror=$(sed -En 's/^(URIs:|deb( \[.*\])?) (http[^ ]*\/debian)\/?( .*)?$/\3/p' \
             /etc/apt/sources.list /etc/apt/sources.list.d/* 2>/dev/null | head -1) || true
  mkdir -p lists/partial cache/archives/partial
  echo "deb ${mirror:-http://deb.debian.org/debian} $SUITE main" >sources.list
  options=(Dir::Etc::SourceList="$FOLDER/sources.list" Dir::Etc::SourceParts=/dev/null
           Dir::State::Lists="$FOLDER/lists" Dir::State::Status=/dev/null Dir::Cache="$FOLDER/cache" APT::Sandbox::User=root
           Acquire::Languages=none)
  apt-get -qq "${options[@]/#/-o}" "$@"
}

# Links with absolute targets would lead out of the folder.
make_links_relative() {
  local link target
  find "$ROOT" -type l -lname '/*' | while read -r link; do
    target=$(readlink "$link")
    ln -sfn --relative "$ROOT$target" "$link"
  done
}

if [[ ! -e $FOLDER/ready ]]; then
  cd "$FOLDER"
  apt update >&2
  apt download "${PACKAGES[@]}" >&2
  for package in *.deb; do dpkg -x "$package" "$ROOT"; done
  make_links_relative
  touch ready
fi
headers=$ROOT/usr/include/c++/$GCC
# Come before this machine's folders, which the compiler would otherwise search first.
libraries=(-L"$ROOT/usr/lib/gcc/$TRIPLE/$GCC" -L"$ROOT/lib/$TRIPLE" -L"$ROOT/usr/lib/$TRIPLE")
printf '%s' "${CXX:-g++}"
printf ' %q' --sysroot="$ROOT" -nostdinc++ -isystem "$headers" \
  -isystem "$ROOT/usr/include/$TRIPLE/c++/$GCC" -isystem "$headers/backward" "${libraries[@]}"
