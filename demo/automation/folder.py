"""The folder of configuration of the demo: its plugins, and what it has them do."""

from __future__ import annotations

import secrets
from pathlib import Path

from ...automation.config.files.checksums import write_seal
from ...automation.differences import files_of

#: The scheduled plugins, and the targets of the two routes of what the first reads.
GAUGE, PUMP = "gauge", "pump"
LEVEL = "level.read"
TARGETS = ("alarm", "chart")

#: The pipeline that a webhook begins, and its steps, each a plugin of its name.
PIPELINE, ARRIVED = "delivery", "delivery.arrived"
STEPS = ("unpack", "check", "store")
#: The step whose first attempt fails.
SHAKY = "check"

#: The path that takes the webhook.
HOOK = "/delivery"

#: The file that mends the pump.
MENDED = "mended"

#: How many failures in a row open the breaker of the pump; how long it rests, in minutes.
THRESHOLD, REST_MIN = 3, 25

#: How often the gauge and the pump are due, in minutes.
GAUGE_MIN, PUMP_MIN = 60, 10

#: The first pause before another attempt, in seconds.
PAUSE_S = 30

_CONFIG = f"""\
environment_vars: {{include: [secrets.env]}}
plugin_roots: [plugins]
service: {{max_workers: 2, log_level: debug}}
plugins:
  {GAUGE}:
    schedules: [{{every: {GAUGE_MIN}m}}]
  {PUMP}:
    schedules: [{{every: {PUMP_MIN}m}}]
    retry: {{max_attempts: 1}}
    circuit_breaker: {{threshold: {THRESHOLD}, reset_after: {REST_MIN}m}}
  alarm: {{}}
  chart: {{}}
  unpack: {{}}
  check:
    retry: {{max_attempts: 4, backoff_base: {PAUSE_S}s}}
  store: {{}}
routes:
  - {{from: {GAUGE}, event_type: {LEVEL}, to: alarm}}
  - {{from: {GAUGE}, event_type: {LEVEL}, to: chart}}
pipelines:
  - name: {PIPELINE}
    on: {ARRIVED}
    steps:
      - {{id: unpack, uses: unpack}}
      - {{id: check, uses: check}}
      - {{id: store, uses: store}}
webhooks:
  endpoints:
    - path: {HOOK}
      event_type: {ARRIVED}
      secret_ref: shop
      signature_header: X-Signature
      delivery_id: "header:X-Delivery"
tokens:
  - {{name: shop, key: "${{SHOP}}"}}
"""

_MANIFEST = """\
manifest_spec: ductile.plugin
manifest_version: 1
name: %s
version: 1.0.0
protocol: 2
entrypoint: run.sh
working_directory: plugin
commands:
  poll: {type: read}
  handle: {type: write}
"""

_ANSWER = """#!/bin/sh
cat >/dev/null
%s
"""


def _ok(result: str, events: str = "") -> str:
    return f"""echo '{{"status": "ok", "result": "{result}"{events}}}'"""


def _unless(condition: str, error: str, then: str, otherwise: str = ":") -> str:
    told = f"""echo '{{"status": "error", "error": "{error}"}}'"""
    return f"if [ -e {condition} ]; then {then}; else {otherwise}; {told}; fi"


_PROGRAMS = {
    GAUGE: _ok("the level is 7", f', "events": [{{"type": "{LEVEL}", "payload": {{"level": 7}}}}]'),
    PUMP: _unless(f"../../{MENDED}", "no pressure", _ok("the pump runs")),
    "alarm": _ok("nobody has to come"),
    "chart": _ok("a point was drawn"),
    "unpack": _ok("three boxes"),
    SHAKY: _unless("tried", "the scales are busy", _ok("the weight is right"), ": >tried"),
    "store": _ok("shelf 4"),
}


def make_folder(folder: Path) -> None:
    """Write the configuration and its plugins, and seal it."""
    for name, program in _PROGRAMS.items():
        plugin = folder / "plugins" / name
        plugin.mkdir(parents=True, mode=0o755)
        (plugin / "manifest.yaml").write_text(_MANIFEST % name)
        (plugin / "run.sh").write_text(_ANSWER % program)
        (plugin / "run.sh").chmod(0o755)
    variables = folder / "secrets.env"
    variables.touch(mode=0o600)
    variables.write_text(f"SHOP={secrets.token_hex(16)}\n")
    (folder / "config.yaml").write_text(_CONFIG)
    write_seal(*files_of(folder))
