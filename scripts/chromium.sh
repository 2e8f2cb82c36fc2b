#!/usr/bin/env bash
# Install Debian's Chromium, unless a chromium is there: the tests of the console drive it.
# Usage: scripts/chromium.sh
set -euo pipefail

! command -v "${TOOLCRIB_CHROMIUM:-chromium}" >/dev/null || exit 0
if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
    echo "chromium is missing; the tests of the console drive it. On Debian: sudo apt-get install chromium;" \
        "elsewhere name a Chromium or Chrome with TOOLCRIB_CHROMIUM" >&2
    exit 1
fi
export DEBIAN_FRONTEND=noninteractive
apt-get update -q
apt-get install -qy --no-install-recommends chromium fonts-dejavu-core
