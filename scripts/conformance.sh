#!/usr/bin/env bash
# Run the official MCP conformance suite against a server made with Toolcrib (tests/conformance/fixture.py), in both
# eras of the protocol. Fails when a scenario fails that a revision requires; what else failed is shown and does not count.
# Usage: scripts/conformance.sh [RESULTS_DIRECTORY]
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."
results=${1:-build/conformance}
PATH="$(scripts/node.sh):$PATH"
rm -rf "$results"
mkdir -p "$results"

coproc FIXTURE { exec .venv/bin/python -m tests.conformance.fixture "$results/ledgers.sqlite3" \
    2>"$results/fixture.log"; }
trap 'kill "$FIXTURE_PID" 2>/dev/null && wait "$FIXTURE_PID" || true' EXIT
# It says where it listens, once it does.
if ! read -r url <&"${FIXTURE[0]}"; then
    cat "$results/fixture.log" >&2
    exit 1
fi

status=0
for revision in 2025-11-25 2026-07-28; do
    conformance server --url "$url" --requirements "$revision" --output-dir "$results/$revision" \
        >"$results/$revision.log" 2>&1 || status=1
    sed -n '/=== SUMMARY ===/,$p' "$results/$revision.log"
done
exit "$status"
