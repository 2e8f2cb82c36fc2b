#!/usr/bin/env bash
# Run the official MCP conformance suite against servers made with Toolcrib, in both eras of the protocol: one with what
# the suite looks for (tests/conformance/fixture.py), and a plain one with four tools (tests/conformance/plain.py). Fails
# when a scenario fails on the first that a revision requires; what else failed is shown and does not count.
# Usage: scripts/conformance.sh [RESULTS_DIRECTORY]
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."
results=${1:-build/conformance}
PATH="$(scripts/node.sh):$PATH"
rm -rf "$results"
mkdir -p "$results"

coproc FIXTURE { exec .venv/bin/python -m tests.conformance.fixture "$results/ledgers.sqlite3" \
    2>"$results/fixture.log"; }
.venv/bin/python -m tests.conformance.plain >"$results/plain.url" 2>"$results/plain.log" &
plain=$!
trap 'kill "$FIXTURE_PID" "$plain" 2>/dev/null && wait "$FIXTURE_PID" "$plain" || true' EXIT
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
for revision in 2025-11-25 2026-07-28; do
    conformance server --url "$(cat "$results/plain.url")" --requirements "$revision" \
        --output-dir "$results/plain/$revision" >"$results/plain-$revision.log" 2>&1 || true
    echo "plain server, $revision: $(sed -n 's/^Total: //p' "$results/plain-$revision.log")"
done
exit "$status"
