#!/usr/bin/env bash
# Make a virtual environment and install this package into it, with pinned versions.
# Usage: scripts/venv.sh PYTHON VENV CONSTRAINTS REQUIREMENT
set -euo pipefail

python=$1 venv=$2 constraints=$3 requirement=$4

say() { echo "== $* (after ${SECONDS} s)"; }

"$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' || {
    echo "Toolcrib needs Python 3.11 or newer; $python is older. Try: make setup PYTHON=python3.12" >&2
    exit 1
}

# Debian ships Python without ensurepip, so `python3 -m venv` exists there and fails.
if ! "$python" -c 'import ensurepip, venv' 2>/dev/null; then
    if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
        say "installing python3-venv from Debian"
        export DEBIAN_FRONTEND=noninteractive
        apt-get update -q
        apt-get install -qy --no-install-recommends python3-venv
    else
        echo "$python cannot make virtual environments. On Debian: sudo apt-get install python3-venv" >&2
        exit 1
    fi
fi

# An interrupted run leaves an environment without pip; start over then.
if ! "$venv/bin/python" -m pip --version >/dev/null 2>&1; then
    say "making the environment $venv with $("$python" --version)"
    "$python" -m venv --clear "$venv"
fi

say "installing $requirement and what it needs, as pinned in $constraints"
# Each package is named as pip comes to it. Byte code is made by whoever imports a module first,
# which is a small part of them all.
"$venv/bin/python" -m pip install --disable-pip-version-check --progress-bar off --no-compile \
    --constraint "$constraints" --editable "$requirement" 2>&1 |
    "$venv/bin/python" -u scripts/pip_steps.py

# The sandbox mounts its libraries read-only, so that nobody could make their byte code later.
site=$("$venv/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
for library in contourpy cycler dateutil kiwisolver lxml matplotlib mpl_toolkits numpy packaging \
    pandas PIL pyparsing pypdf; do
    if [ -d "$site/$library" ]; then sandboxed+=("$site/$library"); fi
done
if [ -n "${sandboxed+some}" ]; then
    say "compiling the libraries of the sandbox"
    "$venv/bin/python" -m compileall -q -j 0 -x '/tests/' "${sandboxed[@]}"
fi
say "$venv is ready: $(du -sm "$venv" | cut -f1) MB"
