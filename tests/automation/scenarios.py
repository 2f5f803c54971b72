"""Scenarios that are public for Ductile, in folders of our own.

Each says what is asked of the running service, and how the jobs of each plugin are to end.
"""

import sys
from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass, field
from textwrap import indent

from .conftest import Folder
from .running import OK, response

API = """
    api:
      enabled: true
      listen: "127.0.0.1:0"
      auth:
        tokens:
          - token: ${ADMIN}
            scopes: ["*"]
"""

CONFIG = """
    log_level: info
    service: {strict_mode: false, tick_interval: 1s}
    state: {path: "./state/ductile.db"}
    workspace: {ttl: 30s}
    plugin_roots: ["./plugins"]
    include: [api.yaml, plugins.yaml, pipelines.yaml]
"""

MANIFEST = """
    manifest_spec: ductile.plugin
    manifest_version: 1
    name: {name}
    version: 0.1.0
    protocol: 2
    entrypoint: run.sh
    commands:
      poll: {{type: write}}
      handle: {{type: write}}
"""

#: A plugin of a few lines of Python, which is given `payload`, `config` and `command`.
PYTHON = f"""#!{sys.executable}
import json, os, pathlib, signal, sys, urllib.request
asked = json.load(sys.stdin)
command, config = asked["command"], asked.get("config") or {{}}
payload = (asked.get("event") or {{}}).get("payload") or asked.get("payload") or {{}}

def answer(**fields):
    print(json.dumps({{"status": "ok", "result": "done"}} | fields))
    sys.exit(0)

def tell(type, **payload):
    answer(events=[{{"type": type, "payload": payload}}])

"""


def python(text: str) -> str:
    """A plugin of these lines."""
    return PYTHON + text


FETCHES = python("""
if "url" not in payload:
    answer(status="error", error="no url", retry=False)
with urllib.request.urlopen(payload["url"], timeout=30) as got:
    tell("page", status=got.status, kind=got.headers["Content-Type"])
""")

FILES = python("""
path = pathlib.Path(payload["path"]).resolve()
if not path.is_relative_to(pathlib.Path(config["root"]).resolve()):
    answer(status="error", error="outside of the root", retry=False)
if payload["action"] == "write":
    path.write_text(payload["content"])
    tell("written")
tell("was_read", content=path.read_text())
""")

WATCHES = python("""
paths = sorted(str(path) for path in pathlib.Path(config["root"]).glob(config["glob"]))
seen = (asked.get("state") or {}).get("seen") or []
events = [{"type": "appeared", "payload": {"path": path}} for path in paths if path not in seen]
answer(events=events, state_updates={"seen": paths})
""")

KEEPS = python("""
pathlib.Path(config["file"]).write_text(json.dumps(payload))
answer()
""")

CRASHES = python("""
pathlib.Path(config["file"]).write_text("began")
os.kill(os.getpid(), signal.SIGKILL)
""")


def emits(type: str, **payload: object) -> str:
    """A plugin that publishes an event."""
    return response(events=[{"type": type, "payload": payload}])


@dataclass(frozen=True)
class Scenario:
    """A folder, and what is to come of it.

    Attributes:
        programs: its plugins, by name.
        plugins: settings of plugins, by name, beside `enabled`.
        pipelines: the file of pipelines.
        asks: what is posted, and with which payload; in order, each when all before is over.
        ended: how many jobs of a plugin have ended in which state, but for those of schedules.
        kept: what its plugins have written beside the folder, by the file: these values at least.
    """

    programs: dict[str, str]
    plugins: dict[str, str] = field(default_factory=dict)
    pipelines: str = "[]"
    asks: tuple[tuple[str, dict[str, object]], ...] = ()
    ended: dict[tuple[str, str], int] = field(default_factory=dict)
    kept: dict[str, dict[str, object]] = field(default_factory=dict)

    def write(self, folder: Folder) -> Folder:
        listed = "".join(
            f"  {name}: {{enabled: true, {self.plugins.get(name, '')}}}\n" for name in self.programs
        )
        place = str(folder.path.parent)
        folder.write(config=CONFIG, api=API)
        folder.write_as("plugins.yaml", f"plugins:\n{listed}".replace("HERE", place))
        folder.write_as("pipelines.yaml", "pipelines:\n" + indent(self.pipelines, "  "))
        for name, program in self.programs.items():
            folder.plugin(name, MANIFEST.format(name=name), program)
        return folder


#: By the names that they have there, as far as they say what they are for. No two have a plugin, a
#: pipeline or an event in common, so that one service can have them all.
SCENARIOS = {
    "a call of a plugin and of a pipeline": Scenario(
        {"echo": OK},
        pipelines="- {name: call, on: call.asked, steps: [{id: entry, uses: echo}]}",
        asks=(("/plugin/echo/poll", {"message": "hello"}), ("/pipeline/call", {})),
        ended={("echo", "succeeded"): 2},
    ),
    "a step under a condition, with its payload remapped": Scenario(
        {"work": KEEPS, "sink": OK},
        plugins={"work": "config: {file: HERE/worked}"},
        pipelines="""
- name: maybe
  on: maybe.asked
  steps:
    - id: maybe
      uses: work
      if: {path: payload.wanted, op: eq, value: true}
      with: {text: "for {payload.subject}", state: "{payload.state}"}
    - {id: last, uses: sink}
""",
        asks=(
            ("/pipeline/maybe", {"wanted": False, "subject": "no", "state": "x"}),
            ("/pipeline/maybe", {"wanted": True, "subject": "yes", "state": "approved"}),
        ),
        ended={
            ("core.switch", "succeeded"): 2,
            ("work", "succeeded"): 1,
            ("sink", "succeeded"): 2,
        },
        kept={"worked": {"wanted": True, "subject": "yes", "state": "approved", "text": "for yes"}},
    ),
    "a pipeline under a condition on the context before it": Scenario(
        {"logs_in": emits("role.known", role="admin"), "admin": OK, "guest": OK},
        pipelines="""
- {name: role, on: role.asked, steps: [{uses: logs_in, baggage: {role: payload.role}}]}
- name: for_admin
  on: role.known
  if: {path: context.role, op: eq, value: admin}
  steps: [{uses: admin}]
- name: for_guest
  on: role.known
  if: {path: context.role, op: eq, value: guest}
  steps: [{uses: guest}]
""",
        asks=(("/pipeline/role", {"role": "admin"}),),
        ended={("logs_in", "succeeded"): 1, ("admin", "succeeded"): 1},
    ),
    "one event for two pipelines, under one key": Scenario(
        {
            "prepares": response(events=[{"type": "ready", "payload": {}, "dedupe_key": "one"}]),
            "left": OK,
            "right": OK,
        },
        pipelines="""
- {name: start, on: start.asked, steps: [{uses: prepares}]}
- {name: to_left, on: ready, steps: [{uses: left}]}
- {name: to_right, on: ready, steps: [{uses: right}]}
""",
        asks=(("/pipeline/start", {}),),
        ended={(name, "succeeded"): 1 for name in ("prepares", "left", "right")},
    ),
    "a plugin that fetches": Scenario(
        {"fetch": FETCHES},
        asks=(("/plugin/fetch/handle", {"url": "URL/healthz"}), ("/plugin/fetch/handle", {})),
        ended={("fetch", "succeeded"): 1, ("fetch", "dead"): 1},
    ),
    "a plugin that writes and reads files within a root": Scenario(
        {"files": FILES},
        plugins={"files": "config: {root: HERE/root}"},
        asks=(
            ("/plugin/files/handle", {"action": "write", "path": "ROOT/a", "content": "hello"}),
            ("/plugin/files/handle", {"action": "read", "path": "ROOT/a"}),
            ("/plugin/files/handle", {"action": "write", "path": "ROOT/../b", "content": "no"}),
        ),
        ended={("files", "succeeded"): 2, ("files", "dead"): 1},
    ),
    "a file that is watched": Scenario(
        {"watch_file": WATCHES, "of_file": OK},
        plugins={
            "watch_file": "config: {root: HERE/root, glob: one.txt},"
            " schedules: [{command: poll, every: 1s}]"
        },
        pipelines="""
- {name: file, on: appeared, from_plugin: watch_file, steps: [{uses: of_file}]}
""",
        ended={("of_file", "succeeded"): 1},
    ),
    "a folder that is watched": Scenario(
        {"watch_all": WATCHES, "of_all": OK},
        plugins={
            "watch_all": 'config: {root: HERE/root, glob: "*.txt"},'
            " schedules: [{command: poll, every: 1s}]"
        },
        pipelines="""
- {name: folder, on: appeared, from_plugin: watch_all, steps: [{uses: of_all}]}
""",
        ended={("of_all", "succeeded"): 2},
    ),
    "hooks of one plugin, and of each": Scenario(
        {"a": OK, "b": OK, "of_a": OK, "of_b": OK, "of_each": OK},
        plugins={"a": "notify_on_complete: true", "b": "notify_on_complete: true"},
        pipelines="""
- {name: run_a, on: asked.a, steps: [{uses: a}]}
- {name: run_b, on: asked.b, steps: [{uses: b}]}
- {name: hook_a, on-hook: job.completed, from_plugin: a, steps: [{uses: of_a}]}
- {name: hook_b, on-hook: job.completed, from_plugin: b, steps: [{uses: of_b}]}
- {name: hook_each, on-hook: job.completed, steps: [{uses: of_each}]}
""",
        asks=(("/pipeline/run_a", {}), ("/pipeline/run_b", {})),
        ended={
            ("a", "succeeded"): 1,
            ("b", "succeeded"): 1,
            ("of_a", "succeeded"): 1,
            ("of_b", "succeeded"): 1,
            ("of_each", "succeeded"): 2,
        },
    ),
    "a hook that calls a pipeline": Scenario(
        {"root": OK, "told": KEEPS},
        plugins={"root": "notify_on_complete: true", "told": "config: {file: HERE/told}"},
        pipelines="""
- {name: hook_root, on-hook: job.completed, from_plugin: root, steps: [{id: go, call: inner}]}
- {name: inner, on: inner.asked, steps: [{id: tell, uses: told}]}
""",
        asks=(("/plugin/root/poll", {"message": "x"}),),
        ended={
            ("root", "succeeded"): 1,
            ("told", "succeeded"): 1,
            ("of_each", "succeeded"): 1,  # of the scenario before
        },
        kept={"told": {"plugin": "root", "command": "poll", "status": "succeeded"}},
    ),
    "a pipeline and a hook under conditions on the payload": Scenario(
        {"sees": python("tell('seen', kind=payload['kind'])"), "guarded": OK, "hooked": OK},
        plugins={"guarded": "notify_on_complete: true", "sees": "notify_on_complete: true"},
        pipelines="""
- {name: look, on: look.asked, steps: [{uses: sees}]}
- name: only_workouts
  on: seen
  if: {path: payload.kind, op: eq, value: workout}
  steps: [{uses: guarded}]
- name: hook_guarded
  on-hook: job.completed
  if: {path: payload.plugin, op: eq, value: guarded}
  steps: [{uses: hooked}]
""",
        asks=(
            ("/pipeline/look", {"kind": "workout"}),
            ("/pipeline/look", {"kind": "weight"}),
            ("/plugin/guarded/poll", {}),
        ),
        ended={
            ("sees", "succeeded"): 2,
            ("guarded", "succeeded"): 2,
            ("hooked", "succeeded"): 1,  # of the one that follows from nothing
            ("of_each", "succeeded"): 3,  # of the scenario before
        },
    ),
    "a reload while plugins are called": Scenario(
        {"called": OK},
        asks=(
            ("/plugin/called/poll", {}),
            ("/system/reload", {}),
            ("/plugin/called/poll", {}),
            ("/system/reload", {}),
            ("/plugin/called/poll", {}),
        ),
        ended={("called", "succeeded"): 3},
    ),
    "a synchronous pipeline whose first step is left out": Scenario(
        {"first": response(result="A"), "second": response(result="B")},
        pipelines="""
- name: both
  on: both.asked
  execution_mode: synchronous
  timeout: 120s
  steps:
    - {id: one, uses: first, if: {path: payload.first, op: eq, value: true}}
    - {id: two, uses: second}
""",
        asks=(("/pipeline/both", {"first": False}), ("/pipeline/both", {"first": True})),
        ended={
            ("core.switch", "succeeded"): 2,
            ("first", "succeeded"): 1,
            ("second", "succeeded"): 2,
        },
    ),
    "a pipeline of a plugin that writes to the disk": Scenario(
        {"writes": KEEPS},
        plugins={"writes": "config: {file: HERE/written}"},
        pipelines="- {name: disk, on: disk.asked, steps: [{uses: writes}]}",
        asks=(("/pipeline/disk", {"message": "hello"}),),
        ended={("writes", "succeeded"): 1},
        kept={"written": {"message": "hello"}},
    ),
    "a plugin that kills itself": Scenario(
        {"crash": CRASHES},
        plugins={"crash": "config: {file: HERE/crashed}, retry: {max_attempts: 1}"},
        pipelines="- {name: crash, on: crash.asked, steps: [{uses: crash}]}",
        asks=(("/pipeline/crash", {"round": 1}), ("/pipeline/crash", {"round": 2})),
        ended={("crash", "dead"): 2},
    ),
}


def together(scenarios: Collection[Scenario]) -> Scenario:
    """Return one scenario of several, which have no name in common."""
    programs: dict[str, str] = {}
    plugins: dict[str, str] = {}
    ended: Counter[tuple[str, str]] = Counter()
    for each in scenarios:
        assert programs.keys().isdisjoint(each.programs)
        programs |= each.programs
        plugins |= each.plugins
        ended += Counter(each.ended)
    return Scenario(
        programs,
        plugins=plugins,
        pipelines="\n".join(each.pipelines for each in scenarios if each.pipelines != "[]"),
        asks=tuple(ask for each in scenarios for ask in each.asks),
        ended=ended,
        kept={name: told for each in scenarios for name, told in each.kept.items()},
    )
