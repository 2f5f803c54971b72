"""Facts and states of plugins, the log of their jobs, their tables; the fence of a service."""

from __future__ import annotations

import os
import re
import socket
from dataclasses import dataclass, field

import orjson

from ...schema.errors import InvalidInput, Refused
from ...schema.message.canonical_json import encode
from ...schema.message.names import MAX_SEQ
from ...schema.message.times import format_ts
from ...schema.process_table import boot_id
from ...schema.queries import Queries, Table
from ...subscribers.jobs.policy import kept_error

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path
    from typing import Any

    from ...schema.message.message import Message

# The statements of the jobs of plugins, with the columns that several of them share.

_PARTS = {
    "{log}": (
        "id, plugin, command, status, result, attempt, submitted_by, created_at, completed_at,"
        " last_error, stderr, parent_job_id, source_event_id"
    ),
    "{asked for}": (
        "completed_at >= ?1 AND completed_at <= ?2 AND (?3 IS NULL OR plugin = ?3)"
        " AND (?4 IS NULL OR command = ?4) AND (?5 IS NULL OR submitted_by = ?5)"
        " AND (?6 IS NULL OR status IN (SELECT value FROM json_each(?6)))"
        " AND (?7 IS NULL OR last_error LIKE ?7 ESCAPE '\\' OR stderr LIKE ?7 ESCAPE '\\'"
        " OR result LIKE ?7 ESCAPE '\\')"
    ),
    "{of job}": "id > ?9 || '-' AND id < ?9 || '.'",
    "{breaker}": (
        "plugin, command, state, failure_count, opened_at, last_failure_at, last_job_id, updated_at"
    ),
}

SQL = Queries(beside=__file__, parts=_PARTS)

# The last `init` of each plugin, so that it runs once for each form of the plugin.


@dataclass(frozen=True, slots=True)
class Init:
    """The last `init` of a plugin.

    Attributes:
        plugin: its name.
        fingerprint: of the plugin and its configuration then.
        state: `ok` or `failed`.
        error: why it failed, or None.
        at_ms: when it ended, in epoch milliseconds.
    """

    plugin: str
    fingerprint: str
    state: str
    error: str | None
    at_ms: int


class Inits(Table):
    """The table `plugin_inits`."""

    def all(self) -> dict[str, Init]:
        """Return the last one of each plugin."""
        return {row[0]: Init(*row) for row in self._engine.rows(SQL["inits"])}

    def note(self, plugin: str, fingerprint: str, error: str | None) -> None:
        """Note how one has ended; None is no error."""
        state = "ok" if error is None else "failed"
        values = (plugin, fingerprint, state, kept_error(error), self._engine.now_ms())
        self._engine.change(SQL["set_init"], values)

    def forget(self, plugin: str) -> None:
        """Forget a plugin that was removed: it is a new one when it comes again."""
        self._engine.change(SQL["forget_init"], (plugin,))


#: The largest state, and the largest snapshot of a fact, in bytes of JSON: 1 MB.
MAX_STATE_BYTES = 1_000_000


@dataclass(frozen=True, slots=True)
class Fact:
    """A snapshot that a plugin has reported.

    Attributes:
        id, seq: its numbers; both grow.
        plugin_name, fact_type: whose it is, and what its manifest calls it.
        job_id, command: of the job that reported it.
        fact_json: the snapshot, as JSON text.
        created_at: when, as RFC 3339.
    """

    id: int
    seq: int
    plugin_name: str
    fact_type: str
    job_id: str | None
    command: str | None
    fact_json: str
    created_at: str


class Facts(Table):
    """The tables `plugin_facts` and `plugin_state`; the second is a cache where there are facts."""

    def state(self, plugin: str) -> dict[str, Any]:
        """Return the state that a plugin is given; empty before the first report."""
        text: str | None = self._engine.value(SQL["plugin_state"], (plugin,))
        state: dict[str, Any] = {} if text is None else orjson.loads(text)
        return state

    def states(self) -> list[tuple[str, dict[str, Any], str | None]]:
        """Return the name, the state and the time of its last change of each plugin."""
        rows = self._engine.rows(SQL["plugin_states"])
        return [(plugin, orjson.loads(text), at) for plugin, text, at in rows]

    def record(
        self,
        plugin: str,
        fact_type: str,
        snapshot: Mapping[str, object],
        job_id: str,
        command: str,
        *,
        merges: bool = False,
    ) -> int:
        """Store a fact, which is the plugin's state from then on, and return its id.

        Args:
            merges: only its keys are set in the state; the others stay.

        Raises:
            InvalidInput: it, or the state, is larger than 1 MB; nothing was stored.
        """
        text = _encoded(plugin, snapshot)
        with self._engine.write():
            at = format_ts(self._engine.now_ms())
            fact = (plugin, fact_type, job_id, command, text, at)
            number = self._engine.insert(SQL["add_fact"], fact)
            (self.merge if merges else self.replace)(plugin, snapshot)
        return number

    def merge(self, plugin: str, updates: Mapping[str, object]) -> None:
        """Set the given keys of a plugin's state, and leave the others as they are.

        Raises:
            InvalidInput: the state would be larger than 1 MB; it is unchanged.
        """
        with self._engine.write():
            self.replace(plugin, {**self.state(plugin), **updates})

    def replace(self, plugin: str, state: Mapping[str, object]) -> None:
        """Set a plugin's state, whatever it was.

        Raises:
            InvalidInput: it would be larger than 1 MB; it is unchanged.
        """
        text = _encoded(plugin, state)
        self._engine.change(
            SQL["set_plugin_state"], (plugin, text, format_ts(self._engine.now_ms()))
        )

    def newest(self, plugin: str, limit: int, *, before_seq: int = MAX_SEQ) -> list[Fact]:
        """Return the newest facts of a plugin, the newest first."""
        rows = self._engine.rows(SQL["facts_of_plugin"], (plugin, before_seq, limit))
        return [Fact(*row) for row in rows]

    def prune(self, before: str, limit: int) -> int:
        """Delete facts of before a time, at most so many; the newest of each plugin stays."""
        return self._engine.count_changes(SQL["prune_facts"], (before, limit))


def _encoded(plugin: str, state: Mapping[str, object]) -> str:
    data = encode(state, "state_updates")
    if len(data) > MAX_STATE_BYTES:
        raise InvalidInput(
            f"the state of plugin {plugin} would be {len(data)} bytes of JSON; the limit is"
            f" {MAX_STATE_BYTES}"
        )
    return data.decode()


# The log of jobs: each ended attempt with all that its plugin printed, and live output before.

#: The asker of attempts after the first, where the service logs them so.
RETRY = "retry"

#: The last time that text can say: newer than all that is stored.
_END_OF_TIME = "9999-12-31T23:59:59.999Z"


@dataclass(frozen=True, slots=True)
class LogEntry:
    """An ended attempt.

    Attributes:
        id: of the job, a dash, the token of the claim: a job that is retried by hand begins with
            attempt 1 again.
        plugin, command: what ran.
        status: `succeeded`, `failed`, `timed_out`, or `dead` where it did not end by itself.
        result: all that it printed to stdout.
        attempt: which one, from 1.
        submitted_by: who asked for the job.
        created_at, completed_at: when the job was made, and the attempt ended, as RFC 3339.
        last_error: why it failed, or None.
        stderr: what it printed there, up to 64 KiB.
        parent_job_id, source_event_id: where the job comes from.
    """

    id: str
    plugin: str
    command: str
    status: str
    result: str | None
    attempt: int
    submitted_by: str
    created_at: str
    completed_at: str
    last_error: str | None
    stderr: str | None
    parent_job_id: str | None
    source_event_id: str | None

    @property
    def answer(self) -> dict[str, Any] | None:
        """The answer of the plugin; None where it printed no JSON object."""
        try:
            answer = orjson.loads(self.result or "")
        except orjson.JSONDecodeError:
            return None
        return answer if isinstance(answer, dict) else None


#: Of how many of a plugin's newest attempts the output is kept where they failed: a plugin that
#: fails for ever, and prints all it may, fills no disk. What went wrong stays in the error.
KEPT_OUTPUTS = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class LogFilter:
    """The attempts that a person asks for; None is any.

    Attributes:
        job_id, plugin, command, submitted_by: of their jobs.
        statuses: the states in which they ended; none for all.
        since, until: when they ended, as RFC 3339, both included.
        text: what stands in the error, or in what was printed, without regard to case.
    """

    job_id: str | None = None
    plugin: str | None = None
    command: str | None = None
    submitted_by: str | None = None
    statuses: tuple[str, ...] = ()
    since: str | None = None
    until: str | None = None
    text: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptEnd:
    """The end of an attempt at the job of a message, for the log.

    `submitted_by` None is what the message says.
    """

    message: Message
    plugin: str
    command: str
    status: str
    attempt: int
    token: int
    stdout: str | None
    stderr: str | None
    error: str | None
    submitted_by: str | None = None


class JobLog(Table):
    """The tables `job_log` and `job_output`."""

    def add(self, end: AttemptEnd) -> None:
        """Log the end of an attempt; its live output goes."""
        message, headers = end.message, end.message.headers
        job = headers.get("job")
        origin = job if isinstance(job, dict) else {}
        row = (
            *(f"{message.id}-{end.token}", end.plugin, end.command, end.status),
            *(_storable(end.stdout), end.attempt, end.submitted_by or submitted_by(message)),
            *(format_ts(max(0, message.ts_ms)), format_ts(self._engine.now_ms())),
            *(kept_error(end.error), _storable(end.stderr)),
            *(_text(origin.get("parent_job_id")), _text(origin.get("source_event_id"))),
        )
        with self._engine.write():
            self._engine.change(SQL["add_log"], row)
            self._engine.change(SQL["drop_old_output"], (end.plugin, KEPT_OUTPUTS))
            self.drop_output(end.token)

    def of_job(self, job_id: str) -> list[LogEntry]:
        """Return the ended attempts at a job, in order."""
        entries = [LogEntry(*row) for row in self._engine.rows(SQL["log_of_job"], (job_id,))]
        return sorted(entries, key=lambda entry: (len(entry.id), entry.id))  # by their tokens

    def newest(self, limit: int, *, plugin: str | None = None) -> list[LogEntry]:
        """Return the attempts that ended last, of one plugin or of all, the newest first."""
        if plugin is None:
            rows = self._engine.rows(SQL["newest_log"], (_END_OF_TIME, limit))
        else:
            rows = self._engine.rows(SQL["newest_log_of_plugin"], (plugin, _END_OF_TIME, limit))
        return [LogEntry(*row) for row in rows]

    def find(self, log_filter: LogFilter, limit: int) -> list[LogEntry]:
        """Return the wanted attempts that ended last, the newest first."""
        name = "find_log" if log_filter.job_id is None else "find_log_of_job"
        entries = [
            LogEntry(*row) for row in self._engine.rows(SQL[name], _values(log_filter, limit))
        ]
        return sorted(entries, key=lambda entry: entry.completed_at, reverse=True)[:limit]

    def count(self, log_filter: LogFilter, limit: int) -> int:
        """Return how many attempts are wanted; the count ends at `limit`."""
        name = "count_log" if log_filter.job_id is None else "count_log_of_job"
        count: int = self._engine.value(SQL[name], _values(log_filter, limit))
        return count

    def prune(self, before: str, limit: int) -> int:
        """Delete attempts that ended before a time, at most so many; return how many went."""
        return self._engine.count_changes(SQL["prune_log"], (before, limit))

    def drop_output(self, token: int) -> None:
        """Delete the live output of an attempt, by the token of its claim."""
        self._engine.change(SQL["drop_output"], (token,))

    def clear_output(self) -> None:
        """Delete all live output: nothing runs, so it is of jobs that others have ended."""
        self._engine.change(SQL["clear_output"])

    def add_output(self, chunks: Iterable[tuple[int, str, str]]) -> None:
        """Store live output: the token of the claim, stream and text of each chunk."""
        with self._engine.write():
            for chunk in chunks:
                self._engine.change(SQL["add_output"], chunk)

    def output(self, token: int) -> list[tuple[str, str]]:
        """Return the live output of an attempt: stream and text of each chunk."""
        return self._engine.rows(SQL["output_of_attempt"], (token,))


def submitted_by(message: Message) -> str:
    """Return who asked for the job of a message; a program that does not say so counts as `cli`."""
    submitter = message.headers.get("submitted_by")
    return submitter if isinstance(submitter, str) and submitter else "cli"


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None


def _storable(text: str | None) -> str | None:
    return None if text is None else text.encode(errors="replace").decode()


def _values(log_filter: LogFilter, limit: int) -> tuple[object, ...]:
    """Return the values of the statements for wanted attempts."""
    text = log_filter.text and re.sub(r"([\\%_])", r"\\\1", log_filter.text)
    statuses = orjson.dumps(log_filter.statuses).decode() if log_filter.statuses else None
    asked = (
        *(log_filter.since or "", log_filter.until or _END_OF_TIME),
        *(log_filter.plugin, log_filter.command, log_filter.submitted_by),
        *(statuses, f"%{text}%" if text else None, limit),
    )
    return asked if log_filter.job_id is None else (*asked, log_filter.job_id)


# The fence of the service: late writes of an earlier service are refused.


class ServiceFenced(Refused):
    """Another service of this bus has begun since: this one writes nothing more."""


@dataclass(frozen=True, slots=True)
class ServiceRow:
    """The service as it is stored.

    Attributes:
        token: its fence.
        pid: its process; None where it ended by itself.
        host, boot_id: where that runs.
        directory, config_hash: of its configuration.
        started_at_ms, ready_at_ms, beat_at_ms: when it began, was ready, and was last seen.
    """

    token: int
    pid: int | None
    host: str | None
    boot_id: str | None
    directory: str | None
    config_hash: str | None
    started_at_ms: int | None
    ready_at_ms: int | None
    beat_at_ms: int | None


class Fence(Table):
    """The table `automation_service`: one row, with the token of the current service."""

    def begin(self, directory: Path, config_hash: str) -> int:
        """Draw the token of a service that begins in this process."""
        now_ms = self._engine.now_ms()
        where = (os.getpid(), socket.gethostname(), boot_id(), str(directory), config_hash)
        ((token,),) = self._engine.change(SQL["begin_service"], (*where, now_ms, now_ms))
        return int(token)

    def check(self, token: int) -> None:
        """Refuse writes of any but the newest service; call it in the transaction to guard.

        Raises:
            ServiceFenced: another one has begun since.
        """
        newest = self._engine.value(SQL["service_token"])
        if newest != token:
            raise ServiceFenced(
                f"another service of this bus has begun (its token is {newest}, this one's"
                f" {token}): nothing more is written"
            )

    def ready(self, token: int, config_hash: str) -> None:
        """Note that the service is ready, by a configuration."""
        self._engine.change(SQL["note_ready"], (self._engine.now_ms(), config_hash, token))

    def beat(self, token: int) -> None:
        """Note that the service is there."""
        self._engine.change(SQL["note_beat"], (self._engine.now_ms(), token))

    def end(self, token: int) -> None:
        """Note that the service has ended by itself."""
        self._engine.change(SQL["end_service"], (token,))

    def row(self) -> ServiceRow:
        """Return the service that was there last."""
        row = self._engine.row(SQL["service"])
        return ServiceRow(*row) if row is not None else ServiceRow(0, *[None] * 8)


# The last activation of a configuration: what was left out, or why it was refused.


@dataclass(frozen=True, slots=True)
class Activation:
    """An attempt to activate a configuration, at a start or a reload.

    Attributes:
        number: how many there were on this bus, refused ones too.
        left_out: the configured plugins that can't be loaded, by name, each with the reason. Where
            it was refused, those of the configuration that stays in force.
        refused: why it was refused; None where it is in force.
    """

    number: int = 0
    left_out: Mapping[str, str] = field(default_factory=dict)
    refused: str | None = None


class Activations(Table):
    """The entry `automation_taking` of the table `meta`."""

    def last(self) -> Activation:
        """Return the last activation; an empty one if there is none or its entry is damaged."""
        try:
            entry = orjson.loads(self._engine.value(SQL["taking"]) or b"{}")
        except orjson.JSONDecodeError:
            entry = {}
        fields = entry if isinstance(entry, dict) else {}
        number, left_out = fields.get("number"), fields.get("left_out")
        refused = fields.get("refused")
        named = left_out.items() if isinstance(left_out, dict) else ()
        return Activation(
            number if isinstance(number, int) else 0,
            {name: str(why) for name, why in named},
            None if refused is None else str(refused),
        )

    def taken(self, left_out: Mapping[str, str]) -> None:
        """Record an activation; call it in the caller's transaction."""
        shown = {name: kept_error(why) or "" for name, why in left_out.items()}
        self._note(Activation(self.last().number + 1, shown))

    def refused(self, why: str) -> None:
        """Record a refused activation; call it in the caller's transaction."""
        last = self.last()
        self._note(Activation(last.number + 1, last.left_out, kept_error(why)))

    def _note(self, activation: Activation) -> None:
        fields = {
            "number": activation.number,
            "left_out": activation.left_out,
            "refused": activation.refused,
        }
        self._engine.change(SQL["set_taking"], (orjson.dumps(fields).decode(),))
