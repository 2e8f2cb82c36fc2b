#!/usr/bin/env bash
# Run the tests with one marker. None yet is fine; pytest alone would call it a failure.
# A few tests that fail beside others are run again, one after the other. Those that pass then are named as flaky, each
# a defect to mend; one that fails again, or more than five failures, fail the run.
# Usage: scripts/marked.sh MARKERS [PYTEST OPTIONS]
set -euo pipefail

most=5
markers=$1
shift
cache=$(mktemp -d)
trap 'rm -rf "$cache"' EXIT

status=0
.venv/bin/pytest -q -m "$markers" -o cache_dir="$cache" "$@" || status=$?
if [ "$status" = 5 ]; then
    echo "no test is marked $markers"
    exit 0
fi
failures=$cache/v/cache/lastfailed
if [ "$status" != 1 ] || [ ! -s "$failures" ]; then
    exit "$status"
fi
mapfile -t failed < <(.venv/bin/python -c 'import json, sys; print(*json.load(open(sys.argv[1])), sep="\n")' "$failures")
if [ "${#failed[@]}" -gt "$most" ]; then
    exit 1
fi
.venv/bin/pytest -q -o cache_dir="$cache" "${failed[@]}"
echo "FLAKY: these failed beside others and passed alone; mend them:"
printf '  %s\n' "${failed[@]}"
