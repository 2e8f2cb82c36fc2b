#!/usr/bin/env bash
# A newcomer's first hour, as a user who is not root, from a fresh clone: the demo, a project of
# their own, a call, an approval from another terminal, and the question who called what.
# Usage: scripts/first_hour.sh
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
nobody=65534

# --- Without rights of root, in a home of their own -------------------------------------------

if [ "${1:-}" != --as-newcomer ]; then
    place=$(mktemp -d "${TMPDIR:-/tmp}/toolcrib-first-hour-XXXXXX")
    trap 'rm -rf "$place"' EXIT
    git clone --quiet "$root" "$place/toolcrib"
    mkdir "$place/home"
    # The mirrors of whoever runs this; their home may be closed to others.
    for key in index-url extra-index-url find-links cert; do
        if value=$(python3 -m pip config get "global.$key" 2>/dev/null); then
            name=PIP_$(tr a-z- A-Z_ <<<"$key")
            export "$name=$value"
        fi
    done
    clean=(env --unset=VIRTUAL_ENV --unset=PYTHONPATH --unset=TOOLCRIB_URL --unset=TOOLCRIB_TOKEN
        --unset=TOOLCRIB_OWNER_TOKEN --unset=XDG_STATE_HOME --unset=XDG_CACHE_HOME
        --unset=XDG_CONFIG_HOME --unset=PYTHONDONTWRITEBYTECODE --unset=MAKEFLAGS --unset=MAKELEVEL
        HOME="$place/home" TMPDIR="$place/home" NO_COLOR=1 LC_ALL=C.UTF-8)
    as=()
    if [ "$(id -u)" = 0 ]; then
        chmod 755 "$place"
        chown -R "$nobody:$nobody" "$place/toolcrib" "$place/home"
        as=(setpriv --reuid="$nobody" --regid="$nobody" --clear-groups)
    fi
    cd "$place/toolcrib"
    "${as[@]}" "${clean[@]}" bash scripts/first_hour.sh --as-newcomer
    exit
fi

# --- What the newcomer does -------------------------------------------------------------------

server=
end() {
    status=$?
    if [ -n "$server" ]; then kill "$server" 2>/dev/null || true; fi
    if [ "$status" != 0 ]; then
        echo "== FAILED: $step" >&2
        for log in "$HOME"/*.log; do if [ -f "$log" ]; then echo "-- $log" >&2 && tail -40 "$log" >&2; fi; done
    fi
}
trap end EXIT

step=
begin() {
    step=$1
    echo "== $step (after $SECONDS s)"
}

# expect STATUS TEXT COMMAND...: run it; it must end with that status and print that text.
expect() {
    local status=$1 text=$2 seen=0
    shift 2
    said=$("$@" 2>&1 </dev/null) || seen=$?
    echo "$said" | sed 's/^/   /'
    if [ "$seen" != "$status" ] || [[ "$said" != *"$text"* ]]; then
        echo "$*: status $seen, not $status, or without '$text'" >&2
        exit 1
    fi
}

begin "make demo"
[ "$(id -u)" != 0 ]
make demo </dev/null >"$HOME/demo.log" 2>&1
for text in "== installing" "place_order" "erified: " "equal"; do
    grep -q -- "$text" "$HOME/demo.log"
done
echo "   $(grep "is ready" "$HOME/demo.log")"
PATH="$PWD/.venv/bin:$PATH"

begin "toolcrib init"
cd "$HOME"
expect 0 "toolcrib dev" toolcrib init shop
cd shop

begin "toolcrib dev"
toolcrib dev --port 0 >"$HOME/dev.log" 2>&1 </dev/null &
server=$!
for _ in $(seq 300); do
    if url=$(grep -o 'http://127.0.0.1:[0-9]*' "$HOME/dev.log" | head -1) && [ -n "$url" ]; then break; fi
    kill -0 "$server"
    sleep 0.2
done
[ -n "$url" ]
echo "   it serves at $url"

begin "a call"
expect 0 120 toolcrib tools call stock_level part=bolts --url "$url"

begin "a call that waits"
expect 4 "waits for approval" toolcrib tools call order_parts part=saws count=50 --url "$url"
approval=$(grep -o 'apr_[0-9a-f]*' <<<"$said" | head -1)
again=$(grep -o -- '--session .*--call-id [^ ]*' <<<"$said" | head -1)

begin "the approval, by somebody else in another terminal"
carol=$(toolcrib tokens create carol --role approver 2>/dev/null | grep -o 'tc_[^ ]*' | head -1)
export TOOLCRIB_URL=$url
TOOLCRIB_TOKEN=$carol expect 0 "$approval" toolcrib approvals list
TOOLCRIB_TOKEN=$carol expect 0 "approved order_parts" toolcrib approvals approve "$approval"
unset TOOLCRIB_URL

begin "the call goes on"
# shellcheck disable=SC2086
expect 0 52 toolcrib tools call order_parts part=saws count=50 --url "$url" $again

begin "a call that nobody may make"
expect 3 "Nobody needs that many" toolcrib tools call order_parts part=saws count=5000 --url "$url"

begin "who called what"
expect 0 order_parts toolcrib audit query --url "$url"
for text in stock_level order_parts denied; do [[ "$said" == *"$text"* ]]; done

begin "the end"
kill -TERM "$server"
wait "$server"
server=
expect 0 "0 faults" toolcrib audit verify --store crib.sqlite3
echo "== the first hour took $SECONDS s"
