#!/usr/bin/env bash
# Gradescope runs this once, when it builds the image: Ubuntu, as root, with the network.
set -euo pipefail
export DEBIAN_FRONTEND=noninteractive
root="${AUTOGRADER_ROOT:-/autograder}"
apt-get update
apt-get install -y --no-install-recommends bubblewrap libseccomp2 ca-certificates
python=""
for version in 3.13 3.12 3.11; do
    if apt-get install -y --no-install-recommends "python$version" "python$version-venv"; then
        python="python$version"
        break
    fi
done
if [ -z "$python" ]; then
    echo "No Python that the book supports is to be had here: choose a newer Ubuntu as the base image" >&2
    exit 1
fi
"$python" -m venv "$root/venv"
"$root/venv/bin/pip" install --no-cache-dir --extra-index-url https://download.pytorch.org/whl/cpu \
    --requirement "$root/source/requirements.txt"
