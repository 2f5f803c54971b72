"""The configuration of the soak, and its plugins: each appends the ids of its jobs to a file."""

from pathlib import Path

from ...sizes import size
from ..conftest import Folder

#: The seconds that programs sleep which are to be ended: a number by which they are found.
ASLEEP = "86400.7461"

SCHEDULES = """
        schedules:
          - {{id: often, command: tick, every: 200ms, catch_up: skip}}
          - {{id: jitter, command: tick, every: 700ms, jitter: 300ms, catch_up: run_once}}
          - {{id: all, command: beat, every: 1s, catch_up: run_all, catch_up_max: 5}}
          - {{id: young, command: young, every: 1s, catch_up: run_all, catch_up_age: 1s}}
          - {{id: hasty, command: hasty, every: 400ms, catch_up: run_once, if_running: cancel}}
          - {{id: cron, command: tick, cron: "* * * * *", catch_up: run_all, if_running: queue}}
          - {{id: once, command: tick, after: 1s, catch_up: run_once, if_running: queue}}
          - {{id: by_day, command: tick, every: 1s, only_between: "00:00-12:00", timezone: UTC}}
          - {{id: by_night, command: tick, every: 1s, only_between: "12:00-00:00", timezone: UTC}}
          - {{id: workdays, command: tick, every: 1s, not_on: [saturday, sunday]}}
"""

OF_SOURCE = "schedules: [{{every: 500ms, jitter: 100ms, catch_up: run_once}}]"

OF_NAUGHTY = """
        schedules:
          - {{id: fail, command: fail, every: 900ms}}
          - {{id: hang, command: hang, every: 1100ms}}
          - {{id: print, command: print, every: 1300ms}}
          - {{id: fork, command: fork, every: 700ms}}
          - {{id: quit, command: quit, every: 1700ms}}
"""

#: The service gives it 5 s to end, each time: by day nobody has them.
OF_DEAF = "schedules: [{{every: 7s}}]" if size(sample=0, whole=1) else ""

CONFIG = """
    plugin_roots: [plugins]
    service: {{tick_interval: 200ms, max_workers: 6, on_failure: heard}}
    tokens: [{{name: github, key: "${{GITHUB}}"}}]
    api:
      enabled: true
      listen: 127.0.0.1:0
      auth: {{tokens: [{{name: admin, token: "${{ADMIN}}", scopes: ["*"]}}]}}
    webhooks:
      listen: 127.0.0.1:0
      endpoints:
        - path: /hook/github
          plugin: hooked
          secret_ref: github
          signature_header: X-Hub-Signature-256
          delivery_id: header:X-GitHub-Delivery
    plugins:
      source:
        enabled: true
        config: {{generation: {generation}}}
        retry: {{max_attempts: 100, backoff_base: 1ms}}
        circuit_breaker: {{threshold: 1000000}}
        {of_source}
      clock:
        enabled: true
        config: {{generation: {generation}}}
        retry: {{max_attempts: 100, backoff_base: 1ms}}
        circuit_breaker: {{threshold: 1000000}}
        {schedules}
      naughty:
        enabled: true
        timeout: 300ms
        retry: {{max_attempts: 2, backoff_base: 10ms}}
        circuit_breaker: {{threshold: 3, reset_after: 2s}}
        {of_naughty}
      deaf: {{enabled: true, timeout: 300ms, retry: {{max_attempts: 1}}, {of_deaf}}}
{lasting}
    routes:
      - {{from: source, event_type: made, to: left}}
      - {{from: source, event_type: made, to: right}}
    pipelines:
      - name: flow
        on: made
        steps:
          - {{id: one, uses: one, baggage: {{n: payload.n}}}}
          - {{id: two, uses: two}}
          - {{id: three, uses: three}}
"""

#: The plugins that only run when they are asked.
ASKED = ("left", "right", "one", "two", "three", "hooked", "called", "heard")

_LASTING = "      {name}: {{enabled: true, retry: {{max_attempts: 100, backoff_base: 1ms}}}}\n"

NAUGHTY = """
    case $request in
      *'"command":"fail"'*) echo '{"status": "error", "error": "as it should"}'; exit 1 ;;
      *'"command":"hang"'*) sleep ASLEEP ;;
      *'"command":"print"'*) head -c 200000 /dev/zero | tr '\\0' e >&2 ;;
      *'"command":"fork"'*) (setsid sleep ASLEEP &) ;;
      *'"command":"quit"'*) exit 78 ;;
    esac
""".replace("ASLEEP", ASLEEP)

#: The acts of programs between the note of their job and their answer.
ACTS = {
    "naughty": NAUGHTY,
    "deaf": f"trap '' TERM\nsleep {ASLEEP}\nsleep {ASLEEP}\n",
    "clock": "sleep 0.02\n",
}

_COMMANDS = (
    "poll",
    "handle",
    "tick",
    "beat",
    "young",
    "hasty",
    "fail",
    "hang",
    "print",
    "fork",
    "quit",
)

_MANIFEST = f"""
    manifest_spec: ductile.plugin
    manifest_version: 1
    name: {{name}}
    version: 1.0.0
    protocol: 2
    entrypoint: run.sh
    commands: {{{{{", ".join(f"{each}: {{{{type: read}}}}" for each in _COMMANDS)}}}}}
"""


class Configuration:
    """The folder of the soak's configuration.

    Args:
        folder: where it is written.
        ran: the folder of the files that plugins append to.
    """

    def __init__(self, folder: Folder, ran: Path) -> None:
        self.folder = folder
        self.generation = 0
        self._ran = ran
        ran.mkdir()
        for name in (*ASKED, "source", "clock", "naughty", "deaf"):
            folder.plugin(name, _MANIFEST.format(name=name), self._program(name))

    def _program(self, name: str) -> str:
        answer = '{"status": "ok", "result": "done"}'
        note = f'echo "$BUS_JOB_ID" >> {self._ran}/{name}'
        if name == "source":
            event = '{"type": "made", "payload": {"n": "\'$BUS_JOB_ID\'"}}'
            answer = f'{{"status": "ok", "result": "", "events": [{event}]}}'
            generation = "sed -n 's/.*\"generation\":\\([0-9]*\\).*/\\1/p'"
            note += f'\necho "$request" | {generation} >> {self._ran}/generations'
        elif name == "three":
            baggage = 'sed -n \'s/.*"context":{"n":"\\([^"]*\\)".*/\\1/p\''
            note += f'\necho "$BUS_JOB_ID $(echo "$request" | {baggage})" >> {self._ran}/baggage'
        return f"#!/bin/sh\nrequest=$(cat)\n{note}\n{ACTS.get(name, '')}\necho '{answer}'\n"

    def ran(self, name: str) -> list[str]:
        """The lines that a plugin has appended to its file."""
        path = self._ran / name
        return path.read_text().splitlines() if path.exists() else []

    def runs(self) -> list[str]:
        """The id of each job as often as a program of it has begun."""
        return [
            id for name in (*ASKED, "source", "clock", "naughty", "deaf") for id in self.ran(name)
        ]

    def write(self, *, has_schedules: bool = True) -> None:
        """Writes the next configuration, which is right."""
        self.generation += 1
        parts = {
            "schedules": SCHEDULES,
            "of_source": OF_SOURCE,
            "of_naughty": OF_NAUGHTY,
            "of_deaf": OF_DEAF,
        }
        shown = {key: part.format() if has_schedules else "" for key, part in parts.items()}
        lasting = "".join(_LASTING.format(name=name) for name in ASKED)
        text = CONFIG.format(generation=self.generation, lasting=lasting, **shown)
        self.folder.write(config=text)
        self.folder.lock()

    def spoil(self) -> None:
        """Puts another generation and a misspelt key into the file."""
        path = self.folder.path / "config.yaml"
        text = path.read_text().replace(f"generation: {self.generation}", "generation: 999999")
        path.write_text(f"{text}\nplugin: {{}}\n")
