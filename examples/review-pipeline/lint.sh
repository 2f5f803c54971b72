#!/bin/sh
# Raw contract: the change comes on stdin; the findings, a line "---" and the change go to stdout.
# Exit status 78 for what no retry mends.
change=$(cat)
if [ -z "$change" ]; then
  echo "there is no change to look at" >&2
  exit 78
fi
printf '%s\n' "$change" | awk '
  /[ \t]+$/         { printf "line %d: space at the end\n", NR }
  length($0) > 100  { printf "line %d: %d characters\n", NR, length($0) }'
printf '%s\n' --- "$change"
