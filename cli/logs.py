"""The library's log, on stderr: long commands retry after errors, and log them."""

from __future__ import annotations

import os

from .show.output import Output

#: The environment variable that sets how much long commands log.
LOG_VARIABLE = "BUS_LOG"


def show_logs(output: Output) -> None:
    """Print the library's log as lines of ours: long commands retry after errors, and log them.

    BUS_LOG=debug, or info, shows more.
    """
    import logging

    class StderrHandler(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            output.note(f"{record.levelname.lower()}: {record.getMessage()}")

    logger = logging.getLogger("ackbus")
    logger.handlers = [StderrHandler()]  # not beside that of an earlier command in this process
    level = os.environ.get(LOG_VARIABLE, "").upper()
    if level in ("DEBUG", "INFO"):
        logger.setLevel(level)
