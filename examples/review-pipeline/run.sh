#!/usr/bin/env bash
# Starts three workers on a bus of its own, has them look at a change, and shows what happened.
# Usage: ./run.sh [FILE]
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
change=${1:-$here/change.txt}
if ! [ -r "$change" ]; then
  echo "can't read $change" >&2
  exit 2
fi
scratch=$(mktemp -d)
export BUS_DIR=$scratch/bus
workers=()
trap 'kill -TERM "${workers[@]}" 2>/dev/null || true; wait; rm -rf "$scratch"' EXIT

bus init >/dev/null
# Answers are addressed to who made the request; these queues take them in all the same.
bus queue create change.linted --addressed any >/dev/null
bus queue create change.reviewed --addressed any >/dev/null
bus run --type change.request --group lint \
  --success-type change.linted --failure-type change.failed -- "$here/lint.sh" &
workers+=($!)
bus run --type change.linted --group review --contract json \
  --success-type change.reviewed --failure-type change.failed -- "$here/review.py" &
workers+=($!)
python3 "$here/summary.py" &
workers+=($!)

# A worker whose heart beats is ready, also to be stopped.
until [ "$(bus agents --json | wc -l)" -eq 3 ]; do
  for worker in "${workers[@]}"; do
    kill -0 "$worker"
  done
  sleep 0.05
done

code=0
bus request change.request --file "$change" --from "${USER:-me}" --timeout 60s \
  2>"$scratch/ids" || code=$?
cat "$scratch/ids" >&2

id=$(sed -n 's/.*message_id=\([^ ]*\).*/\1/p' "$scratch/ids")
bus trace "$id"

kill -TERM "${workers[@]}"
for worker in "${workers[@]}"; do
  wait "$worker"
done
workers=()
exit "$code"
