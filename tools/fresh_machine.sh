#!/usr/bin/env bash
# Do what a newcomer does, and time it: clone the repository as committed, then `make book` and `make test`.
#
#     tools/fresh_machine.sh [FOLDER]          (this is `make fresh`)
#
# Nothing of this machine helps: the clone stands in an empty folder with an empty home and empty caches, and the path
# holds Python, git, make and the basic tools alone. Name further programs in FRESH_TOOLS ("node chromium", which the
# tests of the widgets need). Settings that lead pip to its packages are handed on. The folder (a temporary one if none
# is given, which is removed) keeps the clone and a log of each step.
set -euo pipefail

repository=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
python=$("${PYTHON:-python3}" -c 'import sys; print(sys.executable)')
if [ $# -gt 0 ]; then
    mkdir -p "$1"
    folder=$(cd "$1" && pwd)
    [ -z "$(ls -A "$folder")" ] || { echo "fresh_machine.sh: $folder is not empty"; exit 1; }
else
    folder=$(mktemp -d)
    trap 'rm -rf "$folder"' EXIT
fi
mkdir "$folder/bin" "$folder/home" "$folder/tmp"

printf '#!/bin/sh\nexec "%s" "$@"\n' "$python" >"$folder/bin/python3" # a link would not find its library
chmod +x "$folder/bin/python3"
basic="awk basename bash cat chmod cp cut date dirname env expr find git grep head id ln ls make mkdir mktemp mv nproc pwd
    readlink rm rmdir sed sh sleep sort tail tar tee test touch tr true false uname wc xargs"
for tool in $basic ${FRESH_TOOLS:-}; do
    ln -s "$(type -P "$tool")" "$folder/bin/$tool"
done

# What pip and git need to reach their servers from here.
settings=()
while IFS='=' read -r name value; do
    settings+=("$name=$value")
done < <(env | grep -iE '^(PIP_[A-Z_]*|UV_[A-Z_]*|SSL_CERT_FILE|REQUESTS_CA_BUNDLE|(https?|all|no)_proxy)=' \
    | grep -vE '^(PIP|UV)_CACHE_DIR=')
for file in "${PIP_CONFIG_FILE:-}" "$HOME/.config/pip/pip.conf" "$HOME/.pip/pip.conf"; do
    if [ -f "$file" ]; then
        settings+=("PIP_CONFIG_FILE=$file")
        break
    fi
done

rows=()
step() { # a name, and the command to time in the fresh surroundings
    local name=$1 log="$folder/${1// /_}.log" start=$SECONDS result=passed
    shift
    echo "--- $name: $*"
    env -i "${settings[@]}" HOME="$folder/home" TMPDIR="$folder/tmp" PATH="$folder/bin" LANG=C.UTF-8 "$@" \
        >"$log" 2>&1 || result=failed
    rows+=("$(printf '| %-11s | %6d s | %s |' "$name" $((SECONDS - start)) "$result")")
    tail -n 3 "$log" | cut -c 1-120
    if [ "$result" = failed ]; then
        echo "!!! It failed. The end of what it said:"
        tail -n 40 "$log"
        return 1
    fi
}

failed=0
clone="$folder/clone"
step "clone" git clone --quiet "$repository" "$clone" || failed=1
for part in "environment:.venv/.installed" "make book:book" "make test:test"; do
    [ "$failed" = 1 ] || step "${part%%:*}" make -C "$clone" "${part##*:}" || failed=1
done

echo
echo "$(date +%F), $(nproc) cores, $(uname -sm), $("$python" --version), commit $(git -C "$repository" rev-parse --short HEAD)"
echo "| step        | time     | result |"
echo "| ----------- | -------- | ------ |"
printf '%s\n' "${rows[@]}"
exit "$failed"
