"""The example plugins, each as the command of a worker."""

import json
import shlex
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from ackbus import Bus, Message

from ..conftest import RunBus
from ..docs.snippets import run_document

PLUGINS = Path(__file__).parents[2] / "examples" / "plugins"


def answer_of(bus: Bus, id: str) -> Message:
    (answer,) = (message for message in bus.read(conversation=id) if message.id != id)
    return answer


def run_plugin(
    bus: Bus, run_bus: RunBus, name: str, body: str, env: dict[str, str], **fields: object
) -> Message:
    """Publishes a request and has a worker run the plugin for it; returns the answer."""
    type = f"{name}.request"
    receipt = bus.publish(type, body, from_agent="me", headers={"meta": fields})
    ended = run_bus("run", "--type", type, "--drain", "--", PLUGINS / name, env=env)
    assert ended.code == 0
    return answer_of(bus, receipt.id)


def test_review_is_the_same_each_time_and_safe_to_print(bus: Bus, run_bus: RunBus) -> None:
    """P-53, P-85: a plain command; an empty line has a word, control characters are escaped."""
    text = "\x1b[31mred\x1b[0m\n# TODO\nend "
    answers = [run_plugin(bus, run_bus, "review", text, {}) for _ in range(2)]
    assert answers[0].type == "review.done"
    assert answers[0].payload == answers[1].payload
    assert answers[0].payload.splitlines() == [
        r"3 lines, the first: \x1b[31mred\x1b[0m",
        "line 2: something is left to do",
        "line 3: spaces at the end",
    ]
    empty = run_plugin(bus, run_bus, "review", "", {})
    assert empty.payload == "1 lines, the first: <empty>\n"


class FakeOllama(BaseHTTPRequestHandler):
    """Answers with what it was asked."""

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        known = asked["model"] != "none"
        self.send_response(200 if known else 404)
        self.end_headers()
        told = {"response": f"{self.path} {asked['model']} {asked['stream']} {asked['prompt']}"}
        self.wfile.write(json.dumps(told).encode())

    def log_message(self, format: str, *args: object) -> None:
        """Keeps the test's output clean."""


@pytest.fixture
def ollama_url() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), FakeOllama)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


def test_ollama_takes_the_model_from_meta_then_the_environment_then_its_default(
    bus: Bus, run_bus: RunBus, ollama_url: str
) -> None:
    """P-53, P-85: a local model behind HTTP."""
    env = {"OLLAMA_BASE_URL": ollama_url, "OLLAMA_PLUGIN_MODEL": "from-env"}
    by_meta = run_plugin(bus, run_bus, "ollama", "why?", env, model="from-meta")
    by_env = run_plugin(bus, run_bus, "ollama", "why?", env)
    by_default = run_plugin(bus, run_bus, "ollama", "why?", {"OLLAMA_BASE_URL": ollama_url})
    assert [answer.payload for answer in (by_meta, by_env, by_default)] == [
        f"/api/generate {model} False why?\n" for model in ("from-meta", "from-env", "gemma3:1b")
    ]


def test_ollama_says_what_is_wrong_and_whether_to_try_again(
    bus: Bus, run_bus: RunBus, ollama_url: str
) -> None:
    """P-85, X-14: a model that is not there forbids another attempt, 78."""
    env = {"OLLAMA_BASE_URL": ollama_url, "OLLAMA_PLUGIN_MODEL": "none"}
    answer = run_plugin(bus, run_bus, "ollama", "why?", env)
    assert answer.type == "ollama.failed"
    assert answer.headers["exit_code"] == 78
    assert answer.payload == "the model server refuses: 404 Not Found\n"


GEMINI = """#!/bin/sh
test -z "$(cat)" || exit 9
printf '{"response": "%s|%s|%s|%s|%s|%s"}' "$@"
"""


def with_gemini(tmp_path: Path, bus_env: dict[str, str]) -> str:
    """A PATH on which a command stands in for Gemini's: it answers with what it was given."""
    fake = tmp_path / "bin" / "gemini"
    fake.parent.mkdir()
    fake.write_text(GEMINI, "utf-8")
    fake.chmod(0o755)
    return f"{fake.parent}:{bus_env['PATH']}"


def test_gemini_runs_in_plan_mode_with_nothing_on_stdin(
    bus: Bus, run_bus: RunBus, tmp_path: Path, bus_env: dict[str, str]
) -> None:
    """P-53, P-85: an API behind a command."""
    env = {"PATH": with_gemini(tmp_path, bus_env)}
    answer = run_plugin(bus, run_bus, "gemini", "why?", env)
    assert answer.payload == "--prompt|why?|--output-format|json|--approval-mode|plan\n"


def test_readme_shows_what_happens(
    bus_env: dict[str, str], ollama_url: str, tmp_path: Path
) -> None:
    """P-53: its blocks from top to bottom, in the folder of the plugins."""
    env = {"PATH": with_gemini(tmp_path, bus_env), "OLLAMA_BASE_URL": ollama_url}
    readme = (PLUGINS / "README.md").read_text("utf-8")
    shown = readme.replace(" no-run\n", "\n")
    assert shown.count("```sh\n") + shown.count("```console\n") == 3
    text = f"```sh\ncd {shlex.quote(str(PLUGINS))}\n```\n{shown}"
    run_document(text, "README.md", bus_env | env | {"TMPDIR": str(tmp_path)})
