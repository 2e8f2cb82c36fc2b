#!/usr/bin/env bash
# Play client scenarios of the official MCP conformance suite with Toolcrib's gateway as the client
# (tests/conformance/client.py), one at a time: by default every scenario about signing in. Extensions that the gateway
# does not have are played too; they do not count.
# Usage: scripts/conformance_client.sh [RESULTS_DIRECTORY [SCENARIO ...]]
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."
results=${1:-build/conformance-client}
shift $(($# > 0 ? 1 : 0))
PATH="$(scripts/node.sh):$PATH"
mkdir -p "$results"
not_counted=" auth/enterprise-managed-authorization auth/dpop auth/dpop-nonce auth/wif-jwt-bearer "

if (($# == 0)); then
    mapfile -t scenarios < <(conformance list --client | grep -o 'auth/[a-z0-9-]*')
    set -- "${scenarios[@]}"
fi
status=0
for scenario in "$@"; do
    log="$results/${scenario//\//-}.log"
    if conformance client --command ".venv/bin/python -m tests.conformance.client" --scenario "$scenario" \
        --timeout 60000 >"$log" 2>&1; then
        verdict=pass
    elif [[ $not_counted == *" $scenario "* ]]; then
        verdict="not counted, fail"
    else
        verdict=FAIL
        status=1
    fi
    echo "$verdict $scenario: $(grep -o 'Passed: [0-9/]*' "$log" || true)"
done
exit "$status"
