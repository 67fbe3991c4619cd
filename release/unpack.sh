#!/usr/bin/env bash
# Unpacks packages of a Debian into FOLDER/root, unless they are there already. Nothing is installed,
# and the packages' own scripts do not run. Needs apt-get and dpkg, and no root.
#
# usage: release/unpack.sh FOLDER SUITE ARCHITECTURE PACKAGE...
set -euo pipefail

mkdir -p "$1"
readonly FOLDER=$(cd "$1" && pwd) SUITE=$2 ARCHITECTURE=$3
readonly ROOT=$FOLDER/root WANTED=${*:2}
shift 3

# Runs apt-get with its own package list, from the mirror that this machine uses. It does not see
# the installed packages, whose versions it would otherwise ask for.
apt() {
  local mirror options=()
  mirror=$(sed -En 's/^(URIs:|deb( \[.*\])?) (http[^ ]*\/debian)\/?( .*)?$/\3/p' \
             /etc/apt/sources.list /etc/apt/sources.list.d/* 2>/dev/null | head -1) || true
  mkdir -p lists/partial cache/archives/partial
  echo "deb ${mirror:-http://deb.debian.org/debian} $SUITE main" >sources.list
  options=(Dir::Etc::SourceList="$FOLDER/sources.list" Dir::Etc::SourceParts=/dev/null
           Dir::State::Lists="$FOLDER/lists" Dir::State::Status=/dev/null Dir::Cache="$FOLDER/cache"
           APT::Sandbox::User=root Acquire::Languages=none APT::Architecture="$ARCHITECTURE"
           APT::Architectures="$ARCHITECTURE")
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

if [[ ! -f $FOLDER/ready || $(cat "$FOLDER/ready") != "$WANTED" ]]; then
  cd "$FOLDER"
  rm -rf root ready ./*.deb
  apt update
  apt download "$@"
  for package in *.deb; do dpkg -x "$package" "$ROOT"; done
  make_links_relative
  rm -rf cache lists ./*.deb
  echo "$WANTED" >ready
fi
