"""The example plugins, each as the command of a worker."""

import json
import shlex
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from ackbus import Bus, Message, Queue

from ..automation.shipped.web import breaking_off
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


def failure_of(
    bus: Bus, run_bus: RunBus, name: str, body: str, env: dict[str, str]
) -> tuple[int, str]:
    """The exit code of a plugin that fails at its first attempt, and what it says."""
    publish = bus.publish(f"{name}.request", body, from_agent="me")
    queue = Queue.create(bus, f"{name}.request", max_attempts=1)
    assert run_bus("run", "--queue", queue.name, "--drain", "--", PLUGINS / name, env=env).code == 0
    answer = answer_of(bus, publish.id)
    assert answer.type == f"{name}.failed"
    return answer.headers["exit_code"], answer.payload


@pytest.mark.slow
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
        self.send_response(200)
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


@pytest.mark.slow
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


def http(status: str, body: str, *headers: str) -> bytes:
    """An answer that says it is longer than it is where a header says so."""
    lines = [f"HTTP/1.1 {status}", *headers, "Connection: close", "", body]
    return "\r\n".join(lines).encode()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("answer", "code", "told"),
    [
        (
            http("404 Not Found", '{"error": "model \'none\' not found"}'),
            78,
            "the model server refuses: 404 Not Found: model 'none' not found\n",
        ),
        (
            http("429 Too Many Requests", "slow\ndown", "Retry-After: 7"),
            75,
            "the model server refuses: 429 Too Many Requests: slow down\n"
            "it asks to be tried again after: 7\n",
        ),
        (
            http("502 Bad Gateway", "<html>\n<h1>\x1b[31mBad</h1>"),
            75,
            "the model server refuses: 502 Bad Gateway: <html> <h1> [31mBad</h1>\n",
        ),
        (
            http("500 Broken", "half", "Content-Length: 9"),
            75,
            "the model server refuses: 500 Broken: half\n",
        ),
        (http("503 Busy", ""), 75, "the model server refuses: 503 Busy\n"),
        (b"", 75, "the model server can't be reached: Remote end closed connection without respon"),
        (
            http("200 OK", '{"resp', "Content-Length: 99"),
            75,
            "the model server can't be reached: IncompleteRead(6 bytes read, 93 more expected)\n",
        ),
        (http("200 OK", "<html>Log in"), 1, "the model server's answer has no response: <html>Log"),
        (http("200 OK", '{"error": "no"}'), 1, "the model server's answer has no response: no\n"),
        (
            b"SSH-2.0-OpenSSH\x1b[2J\r\n",
            75,
            "the model server can't be reached: SSH-2.0-OpenSSH [2J\n",
        ),
        (http("404 \x1b[31mNone", ""), 78, "the model server refuses: 404 [31mNone\n"),
    ],
)
def test_ollama_tells_the_servers_own_words_and_whether_to_try_again(
    bus: Bus, run_bus: RunBus, answer: bytes, code: int, told: str
) -> None:
    """P-85, X-14; issue 19, item 13."""
    with breaking_off(answer) as url:
        ended, said = failure_of(bus, run_bus, "ollama", "why?", {"OLLAMA_BASE_URL": url})
    assert (ended, said.startswith(told), said) == (code, True, said)


def test_ollama_reads_no_answer_without_an_end(bus: Bus, run_bus: RunBus) -> None:
    with breaking_off(http("200 OK", "x" * 10_000_001)) as url:
        told = failure_of(bus, run_bus, "ollama", "why?", {"OLLAMA_BASE_URL": url})
    assert told == (1, "the model server's answer is larger than 10000000 bytes\n")


@pytest.mark.parametrize(
    ("url", "code", "told"),
    [
        ("http://127.0.0.1:1", 75, "the model server can't be reached: [Errno 111] Connection ref"),
        ("http://[", 78, "OLLAMA_BASE_URL is no address of a server: "),
        (
            "127.0.0.1:11434",
            78,
            "OLLAMA_BASE_URL is no address of a server: write http://HOST:PORT\n",
        ),
    ],
)
def test_ollama_says_that_there_is_no_server(
    bus: Bus, run_bus: RunBus, url: str, code: int, told: str
) -> None:
    ended, said = failure_of(bus, run_bus, "ollama", "why?", {"OLLAMA_BASE_URL": url})
    assert (ended, said.startswith(told), said.count("\n")) == (code, True, 1)


LONG = "a word " * 29_000


@pytest.mark.slow
def test_prompt_of_200_kb_reaches_the_model_whole(
    bus: Bus, run_bus: RunBus, ollama_url: str, tmp_path: Path, bus_env: dict[str, str]
) -> None:
    """Issue 19, item 13: more than one argument of a command may have."""
    env = {"OLLAMA_BASE_URL": ollama_url, "PATH": with_gemini(tmp_path, bus_env)}
    for name in ("ollama", "gemini"):
        assert LONG in run_plugin(bus, run_bus, name, LONG, env).payload


GEMINI = """#!/bin/sh
printf 'Welcome!\\n{\\n"response": "%s|%s|%s|%s|%s"\\n}' "$(cat)" "$@"
"""


def with_gemini(tmp_path: Path, bus_env: dict[str, str], program: str = GEMINI) -> str:
    """A PATH on which a command stands in for Gemini's: it answers with what it was given."""
    fake = tmp_path / "bin" / "gemini"
    fake.parent.mkdir()
    fake.write_text(program, "utf-8")
    fake.chmod(0o755)
    return f"{fake.parent}:{bus_env['PATH']}"


def test_gemini_runs_in_plan_mode_with_the_prompt_on_stdin(
    bus: Bus, run_bus: RunBus, tmp_path: Path, bus_env: dict[str, str]
) -> None:
    """P-53, P-85: an API behind a command."""
    env = {"PATH": with_gemini(tmp_path, bus_env)}
    answer = run_plugin(bus, run_bus, "gemini", "why?", env)
    assert answer.payload == "why?|--output-format|json|--approval-mode|plan\n"


#: As version 0.61.0 printed them to stderr, shortened.
COMPLAINTS = {
    "404": """Ripgrep is not available.
Error when talking to Gemini API ModelNotFoundError: no such model
    at classifyGoogleError (file:///chunk.js:307292:12)
    at async main (file:///gemini.js:17627:5) {
  code: 404
}
{
  "session_id": "5",
  "error": {"type": "Error", "message": "no such model", "code": 1}
}
""",
    "a dropped connection": """Attempt 1 failed. Retrying with backoff... Error: fetch failed
    at ApiClient.streamApiCall (file:///chunk.js:1:1)
""",
    "nothing": "",
}
TOLD = {
    "404": "no such model\n",
    "a dropped connection": "Attempt 1 failed. Retrying with backoff... Error: fetch failed\n",
    "nothing": "gemini ends with 41\n",
}


@pytest.mark.parametrize("case", COMPLAINTS)
def test_gemini_tells_the_commands_own_words_without_its_stack(
    case: str, bus: Bus, run_bus: RunBus, tmp_path: Path, bus_env: dict[str, str]
) -> None:
    """Issue 19, item 13."""
    program = f"#!/bin/sh\ncat >&2 <<'END'\n{COMPLAINTS[case]}END\nexit 41\n"
    env = {"PATH": with_gemini(tmp_path, bus_env, program)}
    assert failure_of(bus, run_bus, "gemini", "why?", env) == (41, TOLD[case])


@pytest.mark.parametrize(
    ("out", "err", "told"),
    [
        ('{"error": {"message": "no such model", "code": 1}}', "", "no such model\n"),
        ('{"error": {"message": "no such model"}}', "Loaded credentials.", "no such model\n"),
        ("quota is used up", "", "quota is used up\n"),
        ("x" * 1000, "quota is used up", "x" * 483 + " quota is used up\n"),
    ],
)
def test_gemini_tells_what_was_printed_to_stdout_when_it_fails(
    out: str,
    err: str,
    told: str,
    bus: Bus,
    run_bus: RunBus,
    tmp_path: Path,
    bus_env: dict[str, str],
) -> None:
    """Issue 31, item 20; beside noise on stderr, too, which the issue does not name."""
    program = f"#!/bin/sh\necho {shlex.quote(out)}\necho {shlex.quote(err)} >&2\nexit 41\n"
    env = {"PATH": with_gemini(tmp_path, bus_env, program)}
    assert failure_of(bus, run_bus, "gemini", "why?", env) == (41, told)


@pytest.mark.parametrize("said", ["<html>Log in</html>", '{"response": null}', "{", ""])
def test_gemini_that_prints_no_response_is_told_in_a_line(
    said: str, bus: Bus, run_bus: RunBus, tmp_path: Path, bus_env: dict[str, str]
) -> None:
    """Issue 19, item 13."""
    program = f"#!/bin/sh\nexec 0<&-\nprintf '%s' {shlex.quote(said)}\n"
    code, told = failure_of(
        bus, run_bus, "gemini", LONG, {"PATH": with_gemini(tmp_path, bus_env, program)}
    )
    assert (code, told) == (1, f"gemini printed no JSON with a response: {said}\n")


def test_gemini_that_is_not_there_is_told_in_a_line(
    bus: Bus, run_bus: RunBus, tmp_path: Path
) -> None:
    """Issue 19, item 13."""
    (tmp_path / "python3").symlink_to(sys.executable)
    (tmp_path / "env").symlink_to("/usr/bin/env")
    code, told = failure_of(bus, run_bus, "gemini", "why?", {"PATH": str(tmp_path)})
    assert code == 78
    assert told == "gemini can't be run: No such file or directory; install it, and log in\n"


def test_last_words_of_gemini_are_told_when_its_time_is_up(
    bus: Bus, run_bus: RunBus, tmp_path: Path, bus_env: dict[str, str]
) -> None:
    """Issue 19, item 13: Gemini tries again by itself for minutes."""
    program = "#!/bin/sh\necho 'Attempt 1 failed with status 429' >&2\nexec sleep 1000\n"
    env = {"PATH": with_gemini(tmp_path, bus_env, program)}
    receipt = bus.publish("gemini.request", "why?", from_agent="me")
    queue = Queue.create(bus, "gemini.request", max_attempts=1)
    line = ("run", "--queue", queue.name, "--timeout", "4s", "--drain", "--", PLUGINS / "gemini")
    assert run_bus(*line, env=env).code == 0
    assert answer_of(bus, receipt.id).payload == (
        "command timed out after 4 seconds\nAttempt 1 failed with status 429\n"
    )


@pytest.mark.parametrize("name", ["review", "gemini", "ollama"])
def test_bytes_that_are_no_text_reach_a_plugin_without_a_traceback(
    name: str, ollama_url: str, tmp_path: Path, bus_env: dict[str, str]
) -> None:
    env = {"PATH": with_gemini(tmp_path, bus_env), "OLLAMA_BASE_URL": ollama_url}
    done = subprocess.run(
        [PLUGINS / name], input=b"a\xff", env=env, capture_output=True, check=True
    )
    assert (b"a" in done.stdout, done.stderr) == (True, b"")


@pytest.mark.slow
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
