#!/usr/bin/env bash
# Throw what the OpenAPI document allows, and what it does not, at a real server on loopback.
# Usage: scripts/schemathesis.sh [option of `schemathesis run`]...
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."
bin=${VIRTUAL_ENV:-.venv}/bin
work=$(mktemp -d)
mkfifo "$work/stay" "$work/url"
trap 'exec 8>&-; wait "${server:-}" 2>/dev/null || true; rm -rf "$work"' EXIT

"$bin/python" -m tests.fuzz.api_server <"$work/stay" >"$work/url" &
server=$!
exec 8>"$work/stay"
read -r url <"$work/url"

"$bin/schemathesis" --config-file tests/fuzz/schemathesis.toml run "$url/openapi.json" \
    --header "Authorization: Bearer fuzzing-token-0123456789" \
    --wait-for-schema 10 \
    "$@"
