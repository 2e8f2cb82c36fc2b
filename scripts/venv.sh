#!/usr/bin/env bash
# Make a virtual environment and install this package into it, with pinned versions.
# Usage: scripts/venv.sh PYTHON VENV CONSTRAINTS REQUIREMENT
set -euo pipefail

python=$1 venv=$2 constraints=$3 requirement=$4

"$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' || {
    echo "Toolcrib needs Python 3.11 or newer; $python is older. Try: make setup PYTHON=python3.12" >&2
    exit 1
}

# Debian ships Python without ensurepip, so `python3 -m venv` exists there and fails.
if ! "$python" -c 'import ensurepip, venv' 2>/dev/null; then
    if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
        export DEBIAN_FRONTEND=noninteractive
        apt-get update -q
        apt-get install -qy --no-install-recommends python3-venv
    else
        echo "$python cannot make virtual environments. On Debian: sudo apt-get install python3-venv" >&2
        exit 1
    fi
fi

# An interrupted run leaves an environment without pip; start over then.
"$venv/bin/python" -m pip --version >/dev/null 2>&1 || "$python" -m venv --clear "$venv"
"$venv/bin/python" -m pip install --quiet --disable-pip-version-check \
    --constraint "$constraints" --editable "$requirement"
