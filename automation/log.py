"""The log of the service: one JSON object a line, on stdout."""

from __future__ import annotations

import logging
import sys

import orjson

from ..schema.message.times import format_ts

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import TextIO

    from .config.snapshot import ServiceConfig

#: Our loggers begin with it; the component of a line is the rest.
_ROOT = "ackbus"

_LEVELS = {
    "debug": logging.DEBUG,
    "info": logging.INFO,
    "warn": logging.WARNING,
    "error": logging.ERROR,
}

#: The names of levels in a line.
_NAMES = {
    logging.DEBUG: "DEBUG",
    logging.INFO: "INFO",
    logging.WARNING: "WARN",
    logging.ERROR: "ERROR",
    logging.CRITICAL: "ERROR",
}


class JsonLines(logging.Formatter):
    """Makes a line of a record: `timestamp, level, component, plugin?, job_id?, message`."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line."""
        line: dict[str, object] = {
            "timestamp": format_ts(round(record.created * 1000)),
            "level": _NAMES.get(record.levelno, record.levelname),
            "component": component(record.name),
        }
        for name in ("plugin", "job_id"):
            if value := getattr(record, name, None):
                line[name] = value
        text = record.getMessage()
        if record.exc_info:
            text += "\n" + self.formatException(record.exc_info)
        line["message"] = text.encode(errors="replace").decode()
        return orjson.dumps(line).decode()


class TextLines(logging.Formatter):
    """Makes a line for people."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line."""
        about = [str(v) for n in ("plugin", "job_id") if (v := getattr(record, n, None))]
        where = " ".join([component(record.name), *about])
        at = format_ts(round(record.created * 1000))
        text = record.getMessage()
        if record.exc_info:
            text += "\n" + self.formatException(record.exc_info)
        return f"{at} {_NAMES.get(record.levelno, record.levelname):5} {where}: {text}"


def component(logger: str) -> str:
    """Return the component that a logger is of."""
    return logger.removeprefix(f"{_ROOT}.automation.").removeprefix(f"{_ROOT}.")


class ServiceLog:
    """Writes what the service and the bus tell to a stream, from `level` on.

    Leaving the `with` block ends it.
    """

    def __init__(self, stream: TextIO | None = None) -> None:
        self._handler = logging.StreamHandler(stream or sys.stdout)
        self._handler.setFormatter(JsonLines())
        self._logger = logging.getLogger(_ROOT)
        logging.raiseExceptions = (
            False  # a reader of the log that has left must not end the service
        )

    def take(self, service: ServiceConfig) -> None:
        """Go by the level and the form of these settings from now on."""
        self._logger.setLevel(_LEVELS[service.log_level])
        self._handler.setFormatter(JsonLines() if service.log_format == "json" else TextLines())

    def __enter__(self) -> ServiceLog:
        self._logger.addHandler(self._handler)
        self._logger.propagate = False
        return self

    def __exit__(self, *_: object) -> None:
        self._logger.removeHandler(self._handler)
        self._logger.propagate = True
