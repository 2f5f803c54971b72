"""The end of every command: one line on stderr for an error, and an exit code."""

from __future__ import annotations

import os
import sys

from ..schema.errors import AckbusError, StatementRefused
from .show.output import write_whole

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import NoReturn

    from ..schema.errors import RowDamaged
    from .show.output import Output

#: The exit codes after Ctrl-C, and after the reader of a pipe has left: 128 and the signal.
INTERRUPTED, READER_LEFT = 130, 141


def guarded(output: Output, call: Callable[[], int]) -> int:
    """Run a command and return its exit code; no exception leaves it, errors go to `output`.

    What it has published is exported after its output.
    """
    try:
        return _run(output, call)
    finally:
        output.call_afterwards()


def _run(output: Output, call: Callable[[], int]) -> int:
    write_whole()
    output.show_warnings()
    try:
        try:
            code = call()
            output.print_note_at_end()
            output.note_empty(code)
            return code
        finally:
            output.flush()
    except BrokenPipeError:
        _drop_output()
        return READER_LEFT
    except KeyboardInterrupt:
        return INTERRUPTED
    except AckbusError as error:
        if isinstance(error, StatementRefused) and (damaged := _damage_behind(error)) is not None:
            return _failed(output, str(damaged), error)
        output.error(str(error), error)
        return error.exit_code
    except OSError as error:
        return _failed(output, _in_words(error), error)
    except ImportError as error:
        from . import extras

        # The dynamic loader gives its reason in words: too many open files, for instance.
        return _failed(output, extras.hint_of_missing(error) or str(error), error)
    except Exception as error:
        damaged = _damage_behind(error)
        if damaged is not None:
            return _failed(output, str(damaged), error)
        hint = "" if output.is_verbose else "; -v shows where"
        return _failed(output, f"unexpected {type(error).__name__}: {error}{hint}", error)


def _damage_behind(error: Exception) -> RowDamaged | None:
    from ..schema.sqlite.rules.damaged_rows import damage_behind

    return damage_behind(error)


def _in_words(error: OSError) -> str:
    """Return an error of the system as text: its path, and the reason."""
    if isinstance(error, FileNotFoundError) and not error.filename and _is_folder_gone():
        return (
            "the working directory is not there any more: it was deleted or moved; go to another"
            " one, with 'cd'"
        )
    if not error.strerror:
        return str(error)
    return f"{error.filename}: {error.strerror}" if error.filename else error.strerror


def _is_folder_gone() -> bool:
    try:
        os.getcwd()
    except OSError:  # the system names no path that it could not find
        return True
    return False


def is_all_ended() -> bool:
    """Whether the interpreter's own exit has nothing to do: no thread, no span, no view of git."""
    threading = sys.modules.get("threading")
    has_one_thread = threading is None or threading.active_count() == 1
    return has_one_thread and sys.modules.keys().isdisjoint(("opentelemetry", "ackbus.git.sealed"))


def leave(code: int) -> NoReturn:
    """End the process at once: the interpreter's own exit takes a fifth of a poll.

    Everything is closed and flushed by now.
    """
    try:
        sys.stderr.flush()
    finally:
        os._exit(code)


def _failed(output: Output, what: str, error: Exception) -> int:
    output.error(what, error)
    _drop_output()  # the interpreter must not try to write it again at its end
    return 1


def _drop_output() -> None:
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, 1)
    os.close(null)
