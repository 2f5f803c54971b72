"""A sweep over all commands, on terminals, of a bus in which every text is an attack.

Another program has stored it: names, types, ids, bodies, headers, errors, reasons, statuses.
Whatever a command prints of it, or says about a mistake with it, no character of it acts on the
terminal.
"""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from ackbus import Bus
from ackbus.bus.signing import Keyring

from ..programs import connect
from . import reference
from .git import git_env

pytestmark = pytest.mark.slow  # starts many processes

#: Sets a title, clears, colours, moves back; C1, DEL; turns writing round; is invisible.
EVIL = (
    "\x1b]0;owned\x07\x1b[2J\x1b[35;7m\x1b[6n\x9b31m\x9d0;x\x9c\x7f\x08\x0b\x0c\x85"
    "\u202e\u2066\u200b\u200f\u2028\u2029\ufeff\U000e0041\r\nend"
)

#: What our own tables and colours consist of; the attack has a colour that we never use.
OURS = re.compile(r"\x1b\[(?!35;7)[0-9;]*m|\r\n")

#: All that could act, or make the reader see something else than what is there.
ACTS = re.compile(
    "[\x00-\x09\x0b-\x1f\x7f-\x9f\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff"
    "\ufff9-\ufffb\U000e0000-\U000e007f]"
)

NOW = "CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER)"

ROWS = f"""
INSERT INTO messages (id, ts_ms, from_agent, to_agent, type, payload, headers) VALUES
  (:evil || 1, {NOW}, 'a' || :evil, 'me' || :evil, 'work.' || :evil, json_quote(:evil),
   json_object(:evil, :evil, 'dedupe_key', :evil, 'signature', :evil)),
  (:evil || 2, {NOW}, 'a' || :evil, 'me', 'work.step', :evil, NULL),
  ('m-3', {NOW}, 'bob', 'me', 'work.step', json_object('k' || :evil, json_array(:evil)), NULL),
  ('m-4', {NOW}, 'a' || :evil, NULL, 'note', json_quote(:evil), '{{"traceparent":"x"}}');
INSERT INTO messages (id, ts_ms, from_agent, to_agent, type, correlation_id, in_reply_to,
                      payload_ref)
VALUES ('m-5', {NOW}, 'a' || :evil, 'bob', 'work.done', 'm-3', 'm-3', :evil);
INSERT INTO messages (id, ts_ms, from_agent, to_agent, type, correlation_id, in_reply_to, payload)
VALUES ('m-6', {NOW}, 'me', 'bob', 'work.step.failed', 'm-3', 'm-3', json_quote(:evil));
INSERT INTO cursors VALUES ('cursor' || :evil, 1, {NOW}, NULL);
INSERT INTO deliveries VALUES ('me', 2, 'parked', 5, :evil, {NOW});
INSERT INTO deliveries VALUES ('me' || :evil, 1, 'parked', 5, :evil, {NOW});
INSERT INTO heartbeats VALUES ('beat' || :evil, {NOW}, 'busy' || :evil, 'on' || :evil, 0.5, 1);
INSERT INTO task_claims VALUES ('lease' || :evil, 'holder' || :evil, 1, 99999999999999, 0);
INSERT INTO sessions (name, base, process, connection, resume_id, begun_at_ms, until_ms)
VALUES ('session' || :evil, 'session' || :evil, 'p' || :evil, :evil, :evil, 1, 99999999999999);
INSERT INTO access_tokens (token_id, name, scopes, agent_id, created_at_ms, digest) VALUES
  (:evil, :evil, json_array(:evil), :evil, {NOW}, zeroblob(32));
INSERT INTO reservations
VALUES ('src/' || :evil, 'b' || :evil, 'exclusive', :evil, 1, 99999999999999, 0);
INSERT INTO waiting_limits (kind, name, max_waiting) VALUES ('inbox', 'limit' || :evil, 9);
INSERT INTO passed_over VALUES ('gone' || :evil, 1, 1);
INSERT INTO worker_states VALUES ('group' || :evil, '{{}}', 1);
INSERT INTO plugin_inits VALUES ('p' || :evil, 'f', 'failed', :evil, 1);
INSERT INTO plugin_state VALUES ('p' || :evil, json_object(:evil, :evil), NULL);
INSERT INTO circuit_breakers VALUES
  ('p' || :evil, 'c' || :evil, 'closed', 1, NULL, NULL, :evil, '2026-01-01T00:00:00.000Z');
INSERT INTO job_log VALUES (:evil, 'p' || :evil, 'c' || :evil, 'failed', :evil, 1, :evil,
  '2026-01-01T00:00:00.000Z', '2026-01-01T00:00:00.000Z', :evil, :evil, :evil, :evil);
INSERT INTO tasks (task, attempt, state, worker, branch, path, repository, base_ref, base, target,
                   token, review, reviewer, requester, priority, max_attempts, on_lost, depends_on,
                   prompt, reason, blocked, correlation_id, last_seq, created_at_ms, changed_at_ms)
VALUES ('task' || :evil, 1, 'ASSIGNED', :evil, :evil, :evil, :evil, :evil, :evil, :evil, 1, 'none',
        :evil, :evil, 1, 3, 'fail', json_array(:evil), json_quote(:evil), :evil,
        json_object('question', :evil, 'reason', :evil, 'since_ms', 1, 'deadline_ms', 2),
        'm-3', 1, 1, 1);
INSERT INTO queues (name, pattern, filled_seq, created_at_ms) VALUES
  ('q' || :evil, '>', 6, 1), ('work', 'work.>', 6, 1);
INSERT INTO jobs (queue_id, seq, state, max_attempts, available_at_ms, dedupe_key, created_at_ms,
                  ended_at_ms, error) VALUES
  (1, 1, 'dead', 4, 1, :evil, 1, 2, :evil), (1, 2, 'queued', 4, 1, :evil, 1, NULL, :evil),
  (2, 3, 'dead', 4, 1, :evil, 1, 2, :evil);
INSERT INTO claims (queue_id, seq, attempt, worker_group, worker_instance, available_at_ms,
                    claimed_at_ms, lease_until_ms, status, ended_at_ms, error, stderr, result, logs)
VALUES (1, 1, 1, 'g' || :evil, 'i' || :evil, 1, 1, 1, 'failed', 2, :evil, :evil, :evil,
        json_array(json_object('level', :evil, 'message', :evil))),
       (2, 3, 1, 'g' || :evil, 'i' || :evil, 1, 1, 1, 'lost', 2, :evil, :evil, :evil, NULL);
"""

#: Command lines that print what is stored, or complain about what they were given.
READING = [
    *(["where"], ["stats"], ["stats", "--json"], ["init"]),
    *(["replay", "--from", "1"], ["replay", "--from", "1", "--json"], ["read"], ["read", "--json"]),
    *(["show", "1"], ["show", "2"], ["show", "3", "--json"], ["show", EVIL]),
    *(["tail"], ["search", "owned"], ["search", "end", "--json"], ["search", EVIL]),
    *(["poll", "me"], ["poll", "me", "--json"], ["poll", "you"], ["inbox", "you"], ["inbox", EVIL]),
    *(["parked", "list"], ["parked", "list", "--json"], ["parked", "requeue", "me", "77"]),
    *(["prime"], ["top", "--once"], ["top", "--once", "--json"]),
    *(["hook", "start", "claude", "--agent", "me"], ["hook", "stop", EVIL, "--agent", EVIL]),
    *(["token", "list"], ["token", "list", "--json"], ["token", "create", EVIL, "--scope", EVIL]),
    *(["token", "create", EVIL, "--scope", "admin"], ["token", "rotate", EVIL]),
    *(["token", "remove", EVIL],),
    *(["parked", "drop", f"x{EVIL}", "1"], ["queue", "list"], ["queue", "list", "--json"]),
    *(["queue", "show", f"q{EVIL}"], ["queue", "show", "work"], ["queue", "show", "x\x1b[2J"]),
    *(
        ["queue", "pause", EVIL],
        ["queue", "resume", EVIL],
        ["queue", "create", EVIL, "--type", EVIL],
    ),
    *(
        ["job", "list"],
        ["job", "list", "--json"],
        ["job", "show", "1"],
        ["job", "show", "3", "--json"],
    ),
    *(["job", "cancel", "1"], ["job", "retry", "2", "--queue", EVIL]),
    *(["dead", "list"], ["dead", "list", "--json"], ["dead", "show", "1"], ["dead", "show", "3"]),
    *(["limit", "list"], ["limit", "list", "--json"], ["limit", "clear", "--inbox", EVIL]),
    *(["check", "m-3"], ["check", "m-3", "--json"], ["check", EVIL], ["notify", "--once"]),
    *(["trace", "m-3"], ["trace", "m-3", "--json"], ["trace", "1"], ["trace", EVIL]),
    *(["receipts", "1"], ["receipts", "3", "--json"], ["receipts", EVIL]),
    *(["inspect"], ["inspect", "1"], ["inspect", "3", "--json"], ["inspect", EVIL]),
    *(["crew", "status"], ["crew", "stop", "--wait", EVIL], ["crew", "start", EVIL]),
    *(["graph"], ["graph", "m-3"], ["graph", "--json"], ["graph", EVIL], ["timeline"]),
    *(
        ["agents", "list"],
        ["agents", "--json"],
        ["agents", "forget", EVIL],
        ["queue", "remove", EVIL],
    ),
    *(["heartbeat", EVIL], ["lease", "list"]),
    *(["wake", "me"], ["wake", "me", "--json", "--", "true"], ["wake", EVIL, "--", EVIL]),
    *(
        *(["integrate", "--dry-run", "--repo", EVIL], ["integrate", "--into", EVIL, "--once"]),
        *(["task", "list"], ["task", "list", "--json"], ["task", "list", "--state", EVIL]),
        *(["task", act, f"task{EVIL}", "--agent", EVIL] for act in ("start", "approve", "merge")),
        *(["task", act, f"task{EVIL}"] for act in ("show", "log")),
        ["task", "show", f"task{EVIL}", "--json"],
        *(["task", act, EVIL, "-m", EVIL, "--agent", "a"] for act in ("approve", "reject")),
        ["task", "confirm", f"task{EVIL}", "--agent", EVIL],
        ["task", "block", EVIL, EVIL, "--agent", "a", "--token", "1"],
        ["task", "answer", f"task{EVIL}", EVIL, "--agent", "a"],
        ["task", "heartbeat", EVIL, "--agent", EVIL, "--token", "1"],
        ["task", "work", "--worker", "a", "--program", EVIL],
        ["task", "work", "--worker", "a", "--", EVIL],
        ["task", "plan", "--", EVIL],
        ["task", "fail", f"task{EVIL}", "--reason", EVIL, "--agent", EVIL],
        ["task", "cancel", f"task{EVIL}", "--reason", EVIL, "--agent", EVIL],
        ["task", "settle"],
        *(["task", "add", EVIL, "--prompt", EVIL, "--agent", a] for a in ("a", EVIL)),
        ["task", "request", f"@/no/{EVIL}", "--agent", "a"],
        *(["task", "spawn", name, "--worker", EVIL, "--base", EVIL] for name in ("x", EVIL)),
        ["task", "spawn", "x", "--worker", "a", "--branch", EVIL, "-C", EVIL],
        ["task", "done", f"task{EVIL}", "--agent", EVIL, "--token", "1"],
        *(["task", act, f"task{EVIL}"] for act in ("diff", "attach", "clean")),
        *(["task", "clean"], ["task", "clean", "--dry-run", "--json"], ["task", "clean", EVIL]),
        *(["task", "board", "--once"], ["task", "board", "--json"], ["task", "board", "--at", "1"]),
        *(["task", "board", "--at", EVIL], ["task", "forecast"], ["task", "forecast", EVIL]),
        *(["task", "proof", EVIL], ["task", "proof", f"task{EVIL}"], ["task", "comments", EVIL]),
        *(["task", "proof", "--verify", EVIL], ["task", "comments", f"task{EVIL}"]),
        ["task", "comment", f"task{EVIL}", f"{EVIL}:1", EVIL, "--agent", EVIL],
        ["task", "comment", f"task{EVIL}", f"{EVIL}:1", EVIL, "--agent", "a"],
    ),
    *(["lease", "list", "--json"], ["lease", "acquire", f"lease{EVIL}", "--agent", "x"]),
    *(["lease", "release", EVIL, "--agent", EVIL, "--token", "1"], ["reservations"]),
    *(["reservations", "list", "--json"], ["reserve", "src", "--agent", "me"]),
    *(["reserve", f"/{EVIL}", "--agent", EVIL], ["guard", "check"], ["guard", "check", "--json"]),
    *(
        ["blob", "get", EVIL],
        ["blob", "verify"],
        ["blob", "gc"],
        ["segments"],
        ["segments", "--verify"],
    ),
    *(["archive", "--older-than", "0s", "--dry-run"], ["archive", "--dry-run", "--json"]),
    *(["log"], ["log", EVIL], ["import", f"/no/{EVIL}"], ["import", "hostile.jsonl"]),
    *(
        ["export"],
        ["backup", f"/no/{EVIL}/x"],
        ["restore"],
        ["key", "list"],
        ["key", "list", "--json"],
    ),
    *(["trust", "add", EVIL], ["trust", "remove", EVIL], ["trust", "list"]),
    *(["key", "show", EVIL], ["key", "remove", EVIL], ["key", "create", EVIL]),
    *(["chain", "on"], ["chain", "status"], ["verify", "--strict"], ["verify", "--json"]),
    *(["verify", f"--expect={EVIL}"], ["chain", "off"], ["doctor"], ["doctor", "--json"]),
    *(["prompt", "me"], ["prompt", EVIL], ["completion", "words", "bus queue show "]),
    *(
        ["completion", "bash"],
        ["completion", "zsh"],
        ["completion", "fish"],
        ["maintain"],
        ["demo", f"/no/{EVIL}"],
    ),
    *(["publish", EVIL, "x", "--from", "a"], ["publish", "t", "x", "--from", EVIL]),
    *(
        ["publish", "t", "x", "--from", "a", "--to", "me", "--id", "m-3"],
        ["publish", "--jsonl", EVIL],
    ),
    *(["publish", "t", "--from", "a", "--reply-to", EVIL], ["publish", "t", "--data", EVIL]),
    *(["publish", "t", "x", "--from", "a", "--strict", "--to", "bo"], ["ack", EVIL, "1"]),
    *(["ack", "me", "99"], ["run", EVIL], ["upgrade", "--dir", f"/no/{EVIL}"], [EVIL]),
    *(
        ["automation", "status", "--config", "auto", "--dir", ".worker-state"],
        ["automation", "status", "--config", "auto", "--dir", ".worker-state", "--json"],
        ["automation", "start", "--config", EVIL],
        ["automation", "reload", "--config", EVIL],
        ["automation", "stop", "--config", EVIL],
        ["automation", "run", EVIL, "--config", "auto"],
        ["automation", "plugins", "--config", EVIL],
        ["automation", "queue", "--config", "auto", "--dir", ".worker-state"],
        ["automation", "logs", "--config", "auto", "--dir", ".worker-state"],
        ["automation", "logs", EVIL, "--json", "--config", "auto", "--dir", ".worker-state"],
        ["automation", "breaker", f"p{EVIL}", "--config", "auto", "--dir", ".worker-state"],
        ["automation", "api", f"/{EVIL}", "--config", EVIL],
        ["automation", "api", "/jobs", "-f", f"a={EVIL}", "--config", "auto"],
        ["automation", "reset", f"p{EVIL}", "--config", "auto", "--dir", ".worker-state"],
        ["plugin", "list", "--config", EVIL],
        ["plugin", "add", EVIL, "--config", "auto"],
        ["plugin", "show", EVIL, "--config", "auto"],
        ["plugin", "run", EVIL, "--config", "auto"],
        ["plugin", "health", EVIL, "--config", "auto"],
        *(["config", act, EVIL] for act in ("check", "show", "lock", "diff")),
        ["schedule", "list", "--config", "auto", "--dir", ".worker-state"],
        ["schedule", "next", EVIL, "--config", "auto"],
        ["schedule", "next", "--cron", EVIL],
        ["schedule", "history", EVIL, "--config", "auto"],
        *(["schedule", act, EVIL, "--config", "auto"] for act in ("pause", "resume", "run")),
        ["schedule", "backfill", EVIL, "--from", EVIL, "--config", "auto"],
        ["pipeline", "list", "--config", EVIL],
        ["pipeline", "show", EVIL, "--config", "auto"],
        ["pipeline", "run", EVIL, "--config", "auto"],
        ["pipeline", "graph", EVIL, "--config", "auto"],
        ["pipeline", "tree", "m-3", "--config", "auto", "--dir", ".worker-state"],
        ["pipeline", "cancel", EVIL, "--config", "auto", "--dir", ".worker-state"],
        ["pipeline", "repeat", EVIL, "--config", "auto", "--dir", ".worker-state"],
        ["webhook", "list", "--config", EVIL],
        *(["webhook", act, EVIL, "--config", "auto"] for act in ("show", "test")),
        ["route", "list", "--config", EVIL],
        ["route", "test", "--from", "1", "--config", "auto", "--dir", ".worker-state"],
    ),
    *([f"--{EVIL}"], ["poll", "me", f"--{EVIL}"], ["poll", "me", "--dir", f"/no/{EVIL}", "-v"]),
    *(["poll", "me", "--limit", EVIL], ["request", EVIL, "--from", EVIL, "--timeout", EVIL]),
]

#: Commands that print nothing of what is stored, and whose mistakes are those of others above.
LIKE_OTHERS = {
    *("listen", "queue set", "queue purge", "queue skip", "dead requeue", "dead drop", "limit set"),
    *("lease renew", "reservations renew", "reservations release", "guard install", "guard remove"),
    *("blob put", "setup git", "completion man"),
    *("serve", "ui", "mcp", "torture"),  # they print what is theirs: tests/server, tests/torture
    *("forward", "automation init", "plugin facts"),
    *(f"setup {name}" for name in ("claude", "codex", "gemini", "cursor", "copilot", "opencode")),
    "setup windsurf",
}


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> list[tuple[list[str], int, str]]:
    """The exit code of each command line, and the bytes sent to its terminal."""
    project = tmp_path_factory.mktemp("project") / "a\x1b]0;owned\x07\u202e\x9b"
    bus_dir = project / ".worker-state"
    project.mkdir()
    home = tmp_path_factory.mktemp("home")
    env = {key: value for key, value in os.environ.items() if not key.startswith(("BUS_", "XDG_"))}
    env |= {"HOME": str(home), "TERM": "xterm-256color", "COLUMNS": "150", "LC_ALL": "C.UTF-8"}
    env.pop("NO_COLOR", None)
    Bus.init(bus_dir).close()
    with connect(bus_dir) as connection:
        connection.execute(ROWS, {"evil": EVIL})
    (project / "auto").mkdir()
    (project / "auto" / "config.yaml").write_text("plugins: {}\n")
    (bus_dir / "bad\x1b[2J\u202e").write_text("x")
    (bus_dir / "bad\x1b[2J\u202e").chmod(0o666)
    bad = {"id": EVIL, "type": EVIL, "from": EVIL, EVIL: EVIL}
    (project / "hostile.jsonl").write_text(json.dumps(bad) + "\n" + EVIL + "\n")
    Keyring(str(home / ".config/ackbus/keys")).create("a b")
    (home / ".config/ackbus/keys/x%1B%5B2J%E2%80%AE.key").write_text("{}")
    (home / ".config/ackbus/keys/x%1B%5B2J%E2%80%AE.key").chmod(0o600)
    git = ["git", "-c", "user.name=a", "-c", "user.email=a@b"]
    for command in (["init", "-q"], ["add", "-f", "hostile.jsonl"], ["commit", "-qm", "c"]):
        subprocess.run([*git, *command], cwd=project, env=git_env(env), check=True)
    done = subprocess.run(
        [sys.executable, "-W", "ignore", str(Path(__file__).with_name("on_terminals.py"))],
        input=json.dumps(READING),
        capture_output=True,
        text=True,
        cwd=project,
        env=git_env(env),
        timeout=250,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return [(line, *told) for line, told in zip(READING, json.loads(done.stdout), strict=True)]


def test_no_command_lets_a_character_of_an_attack_act(
    shown: list[tuple[list[str], int, str]],
) -> None:
    """PITFALLS 24, M-85: bodies, names, types, headers, errors, reasons, paths, arguments."""
    acting = {
        " ".join(line): sorted({hex(ord(char)) for char in ACTS.findall(OURS.sub("\n", sent))})
        for line, _, sent in shown
    }
    assert {line: found for line, found in acting.items() if found} == {}


def test_every_command_says_something_and_none_breaks(
    shown: list[tuple[list[str], int, str]],
) -> None:
    """Else the sweep would show nothing."""
    silent = [line for line, code, sent in shown if not sent and code not in (0, 4)]
    broken = [line for line, _, sent in shown if "-v shows where" in sent]
    assert silent == []
    assert broken == []
    saying = [line for line, _, sent in shown if "owned" in sent or "u202e" in sent]
    assert len(saying) > len(shown) / 2


def test_every_command_is_in_the_sweep() -> None:
    swept = {" ".join(line[:2]) for line in READING} | {line[0] for line in READING}
    names = {path.removeprefix("bus ") for path, _ in reference.commands()}
    assert names - swept == LIKE_OTHERS
