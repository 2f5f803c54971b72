"""Doing work: the worker host, and the contracts between it and what it runs."""

from .command import RAW_TIMEOUT_S, RawCommand
from .environment import environment_of
from .process import MAX_STDERR_BYTES, MAX_STDOUT_BYTES, ProcessEnd, run_process
from .protocol import JSON_TIMEOUT_S, PROTOCOL, JsonCommand
from .states import WorkerStates
from .stop_switch import GRACE_S, StopSwitch
from .supervisors import Supervisors
from .worker import Worker

__all__ = [
    # the host
    "Worker",
    # commands
    "JSON_TIMEOUT_S",
    "PROTOCOL",
    "RAW_TIMEOUT_S",
    "JsonCommand",
    "RawCommand",
    "WorkerStates",
    # processes
    "GRACE_S",
    "MAX_STDERR_BYTES",
    "MAX_STDOUT_BYTES",
    "ProcessEnd",
    "StopSwitch",
    "Supervisors",
    "environment_of",
    "run_process",
]
