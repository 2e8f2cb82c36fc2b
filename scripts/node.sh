#!/usr/bin/env bash
# Install Node 24 and the npm packages pinned in tests/node/package.json into .node/, unless they are there.
# Prints the directory of their commands. Put it first on PATH: an older Node cannot run them.
# Usage: PATH="$(scripts/node.sh):$PATH"
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."
wanted=tests/node/package.json

is_installed() {
    cmp -s "$wanted" .node/.installed && .node/node_modules/.bin/node --version >/dev/null 2>&1
}

get_npm() {
    command -v npm >/dev/null && return
    if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
        echo "npm is missing; it installs what the tests of MCP and ACP drive. On Debian: sudo apt-get install npm nodejs" >&2
        exit 1
    fi
    export DEBIAN_FRONTEND=noninteractive
    apt-get update -q >&2
    apt-get install -qy --no-install-recommends nodejs npm >&2
}

install() {
    get_npm
    rm -rf .node/node_modules
    cp "$wanted" .node/package.json
    # No lock file: it would name the registry that it was made with.
    (cd .node && npm install --no-package-lock --no-audit --no-fund --loglevel=error) >&2
    cp "$wanted" .node/.installed
}

mkdir -p .node
# Two test runs may begin at once; the second one waits for what the first one installs.
exec 9>.node/.lock
! command -v flock >/dev/null || flock 9
is_installed || install
is_installed || {
    echo "$PWD/.node has no working Node; remove it and run scripts/node.sh again" >&2
    exit 1
}
echo "$PWD/.node/node_modules/.bin"
