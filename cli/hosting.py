"""What `bus run` puts together: a queue, a command in its contract, a worker, and its signals."""

from __future__ import annotations

import os
import shutil
import signal
from contextlib import suppress

from ..schema import InvalidInput
from ..subscribers import MAX_LEASE_S, Queue, QueueMismatch
from ..workers import JSON_TIMEOUT_S, RAW_TIMEOUT_S, JsonCommand, RawCommand
from . import actions, output
from .payloads import json_argument
from .policy_options import make_queue

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import FrameType
    from typing import Any

    from ..bus import Bus
    from ..workers import Worker

#: What stops a worker: after what it is at; a second one at once.
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

#: How much longer than its command may take a worker leases a job, and for how long where the
#: command may take as long as it likes, in seconds. Leases are renewed all the same: this is how
#: long a job waits whose worker has died.
_LEASE_BEYOND_S, _LEASE_S = 30.0, 300.0


class Running:
    """Runs a worker until it is done, or signals stop it."""

    def __init__(self, worker: Worker) -> None:
        self._worker = worker
        self._signals: list[int] = []

    def run(self, work: RawCommand | JsonCommand, *, once: bool, drain: bool) -> int:
        """Work, and return the exit code: 0, or 128 and the signal that ended it at once."""
        output.show_logs()
        # Where a parent ignored it, the kernel would not tell how a command ended.
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        for number in _SIGNALS:
            if signal.getsignal(number) is not signal.SIG_IGN:  # as nohup has it
                signal.signal(number, self._stop)
        self._worker.run_work(work, once=once, drain=drain)
        return 128 + self._signals[1] if len(self._signals) > 1 else 0

    def _stop(self, number: int, frame: FrameType | None) -> None:
        self._signals.append(number)
        if len(self._signals) > 1:
            self._worker.stop_now()
        else:
            self._worker.stop()
            output.remark(
                "ending when what runs has ended; a second Ctrl-C or SIGTERM ends that now"
            )


def check_command(name: str) -> None:
    """Refuse a command that is not there: each job that it is tried on would lose an attempt.

    Raises:
        InvalidInput: it can't be found, or is not executable.
    """
    if shutil.which(name) is not None:
        return
    if os.sep not in name:
        raise InvalidInput(f"there is no command {name!a} on the PATH; give its path, like ./cmd")
    if os.path.isfile(name):
        raise InvalidInput(f"{name!a} is not executable; make it so with chmod +x")
    raise InvalidInput(f"there is no command {name!a}; give the path of a program that is there")


def open_queue(
    bus: Bus, name: str | None, type: str | None, *, is_raw: bool, rules: dict[str, Any]
) -> Queue:
    """Open the queue of a worker. One that is not there is made, with what suits the contract.

    Raises:
        InvalidInput: neither a name nor a type is given.
        QueueNotFound: it is not there, and no type says what it would take in.
        QueueMismatch: it is there with another pattern, or another value of a given rule.
    """
    name = name or type
    if name is None:
        raise InvalidInput("give the --type of the messages, or the --queue")
    pattern = type or Queue.open(bus, name).info.pattern
    if is_raw:
        # For a queue that is there, or that another process makes meanwhile, its own rules hold.
        with suppress(QueueMismatch):
            return make_queue(bus, name, pattern, {"retry": "asked"} | rules)
    return make_queue(bus, name, pattern, rules)


def timeout_s(timeout: str | None, *, is_raw: bool) -> float | None:
    """Return how long a command may take, in seconds; None for ever."""
    if timeout is None:
        return RAW_TIMEOUT_S if is_raw else JSON_TIMEOUT_S
    return actions.seconds(timeout, "--timeout") or None


def lease_s(lease: str | None, timeout_s: float | None) -> float:
    """Return for how long a worker leases a job, in seconds.

    Raises:
        InvalidInput: it is no duration, or too short or too long for a lease.
    """
    if lease is not None:
        given_s = actions.seconds(lease, "--lease")
        if not 0 < given_s <= MAX_LEASE_S:
            raise InvalidInput(f"--lease must be more than 0 and at most {MAX_LEASE_S:g}s")
        return given_s
    return _LEASE_S if timeout_s is None else min(timeout_s + _LEASE_BEYOND_S, MAX_LEASE_S)


def command_work(
    bus: Bus,
    argv: list[str],
    *,
    is_raw: bool,
    group: str,
    timeout_s: float | None,
    config: str | None,
) -> RawCommand | JsonCommand:
    """Return the work that a command does in its contract.

    Raises:
        InvalidInput: the config is none, or the contract has none.
    """
    if is_raw:
        if config is not None:
            raise InvalidInput("--config goes with --contract json only")
        return RawCommand(bus, argv, group=group, timeout_s=timeout_s)
    told = {} if config is None else json_argument(config, "--config")
    if not isinstance(told, dict):
        raise InvalidInput("--config must be a JSON object")
    return JsonCommand(bus, argv, group=group, timeout_s=timeout_s, config=told)
