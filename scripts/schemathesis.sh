#!/usr/bin/env bash
# Throw what the OpenAPI document allows, and what it does not, at a real server on loopback:
# the runtime's, or with `--provider` the embedded provider's.
# Usage: scripts/schemathesis.sh [--provider] [option of `schemathesis run`]...
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."
name=api_server config=schemathesis.toml
if [[ ${1:-} == --provider ]]; then
    name=provider_server config=schemathesis_provider.toml
    shift
fi
bin=${VIRTUAL_ENV:-.venv}/bin
work=$(mktemp -d)
mkfifo "$work/stay" "$work/url"
trap 'exec 8>&-; wait "${server:-}" 2>/dev/null || true; rm -rf "$work"' EXIT

"$bin/python" -m "tests.fuzz.$name" <"$work/stay" >"$work/url" &
server=$!
exec 8>"$work/stay"
read -r url <"$work/url"

"$bin/schemathesis" --config-file "tests/fuzz/$config" run "$url/openapi.json" \
    --header "Authorization: Bearer fuzzing-token-0123456789" \
    --wait-for-schema 10 \
    "$@"
