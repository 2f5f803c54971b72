#!/usr/bin/env python3
"""The json contract, protocol 2: one request on stdin, one response on stdout."""

import json
import sys

PROTOCOL = 2


def remarks_on(change: str) -> list[str]:
    """Return the remarks of a reviewer on a change."""
    remarks = []
    for number, line in enumerate(change.splitlines(), start=1):
        if "TODO" in line:
            remarks.append(f"line {number}: something is left to do")
        if line.lstrip().startswith("print("):
            remarks.append(f"line {number}: prints")
    return remarks


request = json.load(sys.stdin)
if request["protocol"] != PROTOCOL:
    print(f"this speaks protocol {PROTOCOL}, not {request['protocol']}", file=sys.stderr)
    sys.exit(78)

_, _, change = request["event"]["payload"].partition("---\n")
remarks = remarks_on(change)
reviews = request["state"].get("reviews", 0) + 1
response = {
    "status": "ok",
    "result": "\n".join(remarks),
    "events": [{"type": "change.remark", "payload": remark} for remark in remarks],
    "state_updates": {"reviews": reviews},
    "logs": [{"level": "info", "message": f"review {reviews}: {len(remarks)} remarks"}],
}
json.dump(response, sys.stdout)
