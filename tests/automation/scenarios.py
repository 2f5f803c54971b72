"""Scenarios that are public for Ductile, in folders of our own.

Each says what is asked of the running service, and how the jobs of each plugin are to end.
"""

import sys
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
        ended: how many jobs of a plugin have ended in which state.
        at_least: whether more may have ended, as where schedules run.
    """

    programs: dict[str, str]
    plugins: dict[str, str] = field(default_factory=dict)
    pipelines: str = "[]"
    asks: tuple[tuple[str, dict[str, object]], ...] = ()
    ended: dict[tuple[str, str], int] = field(default_factory=dict)
    at_least: bool = False

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


#: By the names that they have there, as far as they say what they are for.
SCENARIOS = {
    "a call of a plugin and of a pipeline": Scenario(
        {"echo": OK},
        pipelines="- {name: p, on: asked, steps: [{id: entry, uses: echo}]}",
        asks=(("/plugin/echo/poll", {"message": "hello"}), ("/pipeline/p", {})),
        ended={("echo", "succeeded"): 2},
    ),
    "a step under a condition, with its payload remapped": Scenario(
        {"work": KEEPS, "sink": OK},
        plugins={"work": "config: {file: HERE/kept}"},
        pipelines="""
- name: p
  on: asked
  steps:
    - id: maybe
      uses: work
      if: {path: payload.wanted, op: eq, value: true}
      with: {text: "for {payload.subject}", state: "{payload.state}"}
    - {id: last, uses: sink}
""",
        asks=(
            ("/pipeline/p", {"wanted": False, "subject": "no", "state": "x"}),
            ("/pipeline/p", {"wanted": True, "subject": "yes", "state": "approved"}),
        ),
        ended={("work", "succeeded"): 1, ("sink", "succeeded"): 2},
    ),
    "a pipeline under a condition on the context before it": Scenario(
        {"source": emits("role.known", role="admin"), "admin": OK, "guest": OK},
        pipelines="""
- {name: first, on: asked, steps: [{uses: source, baggage: {role: payload.role}}]}
- name: for_admin
  on: role.known
  if: {path: context.role, op: eq, value: admin}
  steps: [{uses: admin}]
- name: for_guest
  on: role.known
  if: {path: context.role, op: eq, value: guest}
  steps: [{uses: guest}]
""",
        asks=(("/pipeline/first", {"role": "admin"}),),
        ended={("source", "succeeded"): 1, ("admin", "succeeded"): 1},
    ),
    "one event for two pipelines, under one key": Scenario(
        {
            "source": response(events=[{"type": "ready", "payload": {}, "dedupe_key": "one"}]),
            "left": OK,
            "right": OK,
        },
        pipelines="""
- {name: start, on: asked, steps: [{uses: source}]}
- {name: l, on: ready, steps: [{uses: left}]}
- {name: r, on: ready, steps: [{uses: right}]}
""",
        asks=(("/pipeline/start", {}),),
        ended={(name, "succeeded"): 1 for name in ("source", "left", "right")},
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
        {"watch": WATCHES, "echo": OK},
        plugins={
            "watch": "config: {root: HERE/root, glob: one.txt},"
            " schedules: [{command: poll, every: 1s}]"
        },
        pipelines="- {name: p, on: appeared, steps: [{uses: echo}]}",
        ended={("watch", "succeeded"): 1, ("echo", "succeeded"): 1},
        at_least=True,
    ),
    "a folder that is watched": Scenario(
        {"watch": WATCHES, "echo": OK},
        plugins={
            "watch": 'config: {root: HERE/root, glob: "*.txt"},'
            " schedules: [{command: poll, every: 1s}]"
        },
        pipelines="- {name: p, on: appeared, steps: [{uses: echo}]}",
        ended={("watch", "succeeded"): 1, ("echo", "succeeded"): 2},
        at_least=True,
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
        plugins={"root": "notify_on_complete: true", "told": "config: {file: HERE/kept}"},
        pipelines="""
- {name: hook, on-hook: job.completed, steps: [{id: go, call: inner}]}
- {name: inner, on: inner.asked, steps: [{id: tell, uses: told}]}
""",
        asks=(("/plugin/root/poll", {"message": "x"}),),
        ended={("root", "succeeded"): 1, ("told", "succeeded"): 1},
    ),
    "a pipeline and a hook under conditions on the payload": Scenario(
        {"source": python("tell('seen', kind=payload['kind'])"), "guarded": OK, "hooked": OK},
        plugins={
            "guarded": "notify_on_complete: true",
            "source": "notify_on_complete: true",
        },
        pipelines="""
- {name: start, on: asked, steps: [{uses: source}]}
- name: only_workouts
  on: seen
  if: {path: payload.kind, op: eq, value: workout}
  steps: [{uses: guarded}]
- name: hook
  on-hook: job.completed
  if: {path: payload.plugin, op: eq, value: guarded}
  steps: [{uses: hooked}]
""",
        asks=(
            ("/pipeline/start", {"kind": "workout"}),
            ("/pipeline/start", {"kind": "weight"}),
            ("/plugin/guarded/poll", {}),
        ),
        ended={("source", "succeeded"): 2, ("guarded", "succeeded"): 2, ("hooked", "succeeded"): 1},
    ),
    "a reload while plugins are called": Scenario(
        {"echo": OK},
        asks=(
            ("/plugin/echo/poll", {}),
            ("/system/reload", {}),
            ("/plugin/echo/poll", {}),
            ("/system/reload", {}),
            ("/plugin/echo/poll", {}),
        ),
        ended={("echo", "succeeded"): 3},
    ),
    "a synchronous pipeline whose first step is left out": Scenario(
        {"first": response(result="A"), "second": response(result="B")},
        pipelines="""
- name: p
  on: asked
  execution_mode: synchronous
  timeout: 30s
  steps:
    - {id: one, uses: first, if: {path: payload.first, op: eq, value: true}}
    - {id: two, uses: second}
""",
        asks=(("/pipeline/p", {"first": False}),),
        ended={("second", "succeeded"): 1},
    ),
    "a pipeline of a plugin that writes to the disk": Scenario(
        {"work": KEEPS},
        plugins={"work": "config: {file: HERE/kept}"},
        pipelines="- {name: p, on: asked, steps: [{uses: work}]}",
        asks=(("/pipeline/p", {"message": "hello"}),),
        ended={("work", "succeeded"): 1},
    ),
    "a plugin that kills itself": Scenario(
        {"crash": CRASHES},
        plugins={"crash": "config: {file: HERE/kept}, retry: {max_attempts: 1}"},
        pipelines="- {name: p, on: asked, steps: [{uses: crash}]}",
        asks=(("/pipeline/p", {"round": 1}), ("/pipeline/p", {"round": 2})),
        ended={("crash", "dead"): 2},
    ),
}
