"""The log of the service: one JSON object a line, on stdout."""

from __future__ import annotations

import logging
import sys

import orjson

from ..schema.message.times import format_ts

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import TextIO

    from .config.models import ServiceConfig
    from .config.values import Secret

#: Our loggers begin with it; the component of a line is the rest.
_ROOT = "ackbus"

_LEVELS = {
    "debug": logging.DEBUG,
    "info": logging.INFO,
    "warn": logging.WARNING,
    "error": logging.ERROR,
}

#: Minimum length of a variable's value to be hidden in lines: shorter ones occur in words.
_LEAST = 4

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
            text += "\n" + (record.exc_text or self.formatException(record.exc_info))
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
            text += "\n" + (record.exc_text or self.formatException(record.exc_info))
        return f"{at} {_NAMES.get(record.levelno, record.levelname):5} {where}: {text}"


def component(logger: str) -> str:
    """Return the component that a logger is of."""
    return logger.removeprefix(f"{_ROOT}.automation.").removeprefix(f"{_ROOT}.")


class _Hidden(logging.Filter):
    """Replaces the values of variables in a line by the names of the variables."""

    def __init__(self) -> None:
        super().__init__()
        self._variables: list[tuple[str, str]] = []

    def add(self, variables: Mapping[str, Secret]) -> None:
        """Hide these values too; values that were hidden before may still be logged."""
        hidden = {
            *self._variables,
            *((secret.reveal(), name) for name, secret in variables.items()),
        }
        long = [pair for pair in hidden if len(pair[0]) >= _LEAST]
        self._variables = sorted(long, key=lambda pair: len(pair[0]), reverse=True)

    def filter(self, record: logging.LogRecord) -> bool:
        """Change the message of a record; none is left out."""
        text = record.getMessage()
        if record.exc_info and not record.exc_text:
            record.exc_text = logging.Formatter().formatException(record.exc_info)
        record.msg, record.args = self._without(text), ()
        if record.exc_text:
            record.exc_text = self._without(record.exc_text)
        return True

    def _without(self, text: str) -> str:
        for value, name in self._variables:
            for form in {value, repr(value)[1:-1]}:
                text = text.replace(form, f"${{{name}}}")
        return text


class ServiceLog:
    """Writes the log of the service and the bus to a stream, from `level` on.

    Leaving the `with` block ends it.
    """

    def __init__(self, stream: TextIO | None = None) -> None:
        self._handler = logging.StreamHandler(stream or sys.stdout)
        self._handler.setFormatter(JsonLines())
        self._hidden = _Hidden()
        self._handler.addFilter(self._hidden)
        self._logger = logging.getLogger(_ROOT)
        logging.raiseExceptions = (
            False  # a reader of the log that has left must not end the service
        )

    def use_config(
        self, service: ServiceConfig, variables: Mapping[str, Secret] | None = None
    ) -> None:
        """Use the level and the form of these settings from now on.

        Args:
            service: the settings.
            variables: of the configuration; no line repeats their values.
        """
        self._hidden.add(variables or {})
        self._logger.setLevel(_LEVELS[service.log_level])
        self._handler.setFormatter(JsonLines() if service.log_format == "json" else TextLines())

    def __enter__(self) -> ServiceLog:
        self._logger.addHandler(self._handler)
        self._logger.propagate = False
        return self

    def __exit__(self, *_: object) -> None:
        self._logger.removeHandler(self._handler)
        self._logger.propagate = True
