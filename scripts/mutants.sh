#!/usr/bin/env bash
# Break the core in many small ways; fail when the tests notice too few of them.
# What is broken and which tests run is set in pyproject.toml, under [tool.mutmut].
# A test that starts a process imports the unbroken package there, so it catches nothing here.
# Usage: scripts/mutants.sh [PATTERN...], for example: scripts/mutants.sh 'toolcrib.calls.*'
# SAMPLE=400 tries that many, drawn at random with a fixed seed: all of them take an hour or more.
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."
least=${LEAST_SCORE:-85}

# Verdicts of an earlier run are cached there; a stale one must not pass for today's.
rm -rf mutants
mkdir mutants

run() {
    .venv/bin/python -m mutmut run --max-children "${WORKERS:-2}" "$@" >>mutants/run.log 2>&1 </dev/null
}

echo "running mutants, this takes a while; progress is in mutants/run.log"
patterns=("$@")
if [[ -n "${SAMPLE:-}" ]]; then
    # Nothing has this name: mutants are made and tests are timed, and no mutant is run yet.
    run no.such.mutant || true
    mapfile -t patterns < <(.venv/bin/python scripts/mutant_sample.py "$SAMPLE" "$@")
fi
if ! run "${patterns[@]}"; then
    tail -n 40 mutants/run.log >&2
    echo "mutmut stopped early: the tests must pass on unbroken code first" >&2
    exit 1
fi
.venv/bin/python -m mutmut results --all true | .venv/bin/python scripts/mutation_score.py "$least" "${patterns[@]}"
