"""The output of commands. Text from messages never reaches a terminal with control characters."""

from __future__ import annotations

import io
import itertools
import os
import sys
import warnings
from contextlib import suppress

from ...schema.errors import AckbusError, BlobMissing, InvalidInput
from ..hints import completed
from .text import counted, visible, visible_json

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from typing import BinaryIO

    from ...blobs.store import BlobStore
    from ...bus.search.search import Found
    from ...schema.message.message import Message
    from .text import Parts

#: How much of a payload a line for people shows, in characters.
PREVIEW_CHARS = 200

#: How much of a blob's name a line for people shows, in characters: `sha256-` and 8 digits.
REF_CHARS = 15

#: How much of an error is printed, in characters: it repeats arguments, which may be of any length.
ERROR_CHARS = 1000

#: The exit code when nothing was there.
NOTHING = 4

#: The exit code when the time was over first.
TIMED_OUT = 5

#: The environment variable that sets how much long commands log.
_LOG_VARIABLE = "BUS_LOG"

#: The beginning of notes of which one is enough, and how many different ones are remembered.
_WARNING, _MAX_WARNED = "warning: ", 1000


class ClosedOutput(io.TextIOBase):
    """A stand-in for a standard output that the parent has closed: each write is an error."""

    @property
    def buffer(self) -> BinaryIO:
        """Raises: there is no stream of bytes."""
        raise AckbusError("the standard output is closed")

    def write(self, text: str) -> int:
        """Refuse a text. Libraries would drop it silently if `sys.stdout` were None."""
        raise AckbusError("the standard output is closed")


def write_whole() -> None:
    """Make each write to stdout and stderr whole from now on, or an error.

    Python's own streams lose the rest of a write that the system takes only in part, if they have
    no buffer (PYTHONUNBUFFERED, as in many containers), or the descriptor doesn't block.
    """
    if sys.stdout is None:
        sys.stdout = ClosedOutput()
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None or stream is not getattr(sys, f"__{name}__"):  # closed, or taken already
            continue
        descriptor = stream.fileno()
        blocks = os.get_blocking(descriptor)
        if blocks and not isinstance(stream.buffer, io.RawIOBase):
            continue  # Python's own buffer writes the rest
        stream.flush()
        raw = io.FileIO(descriptor, "w", closefd=False) if blocks else _waiting_file(descriptor)
        whole = io.TextIOWrapper(
            io.BufferedWriter(raw),
            encoding=stream.encoding,
            errors=stream.errors,
            line_buffering=name == "stderr" or stream.isatty(),
        )
        setattr(sys, name, whole)


def _waiting_file(descriptor: int) -> io.FileIO:
    from ...schema.descriptors import WaitingFile  # hooks wait for each module that is loaded

    return WaitingFile(descriptor)


class Output:
    """The place and form of what a command prints, and what it says at its end.

    One is made for each command line. The options of the line set its form while they are read, so
    that an error in the rest of the line is printed in it.

    Args:
        arguments: the words of the command line.
    """

    def __init__(self, arguments: Sequence[str] = ()) -> None:
        #: Whether --json was given: results are JSON objects.
        self.is_json = False
        #: Whether -v was given: details and causes are printed, too.
        self.is_verbose = False
        self._arguments = arguments
        self._bus_option: tuple[str, ...] = ()
        self._at_end: list[str] = []
        self._warned: set[str] = set()
        self._afterwards: list[Callable[[], None]] = []
        self._has_spoken = False

    def name_bus(self, directory: str | None, user: bool = False) -> None:
        """Take the option that named the bus, for every hint from now on."""
        if directory is not None:
            self._bus_option = ("--dir", directory)
        elif user:
            self._bus_option = ("--user",)

    def completed(self, text: str) -> str:
        """Return a text whose hints name the bus of this command line, as it did."""
        return completed(text, self._bus_option)

    # stdout ------------------------------------------------------------------------------

    def line(self, text: str) -> None:
        """Print one line for people."""
        self._write(visible(text).encode() + b"\n")

    def json_line(self, data: bytes | Mapping[str, object]) -> None:
        """Print one JSON object as a line."""
        data = data if isinstance(data, bytes) else _encoded(data)
        if self.is_terminal():
            data = visible_json(data.decode()).encode()
        self._write(data + b"\n")

    def result(self, record: Mapping[str, object], *lines: str) -> None:
        """Print a result: its JSON object with --json, else its lines for people."""
        if self.is_json:
            self.json_line(record)
            return
        for text in lines:
            self.line(text)

    def results(
        self,
        records: Sequence[Mapping[str, object]],
        rows: Iterable[Iterable[object]] | None = None,
        headings: Sequence[str] | None = None,
    ) -> int:
        """Print a list: JSON objects with --json, else a table for people.

        Args:
            records: the objects; all have the same names.
            rows: the rows of the table; None for the values of the records.
            headings: the headings of the table; None for the names of the records.

        Returns:
            The exit code: 4 for an empty list.
        """
        if self.is_json:
            for record in records:
                self.json_line(record)
        elif records:
            shown = (record.values() for record in records) if rows is None else rows
            self.table(headings or list(records[0]), [list(row) for row in shown])
        return 0 if records else NOTHING

    def body(self, text: str) -> None:
        """Print a text for programs, ended by a newline; a terminal gets it with escapes."""
        if self.is_terminal():
            text = "\n".join(map(visible, text.split("\n")))
        data = text.encode(errors="surrogateescape")
        self._write(data if not text or text.endswith("\n") else data + b"\n")

    def branch(self, prefix: str, text: str, style: str) -> None:
        """Print one line of a tree: what draws the tree, the text, and its style on a terminal."""
        if not self.is_terminal():
            self.line(prefix + text)
            return
        from .terminal import print_branch

        self._has_spoken = True
        print_branch(prefix, text, style)

    def messages(
        self,
        batch: Iterable[Message],
        blobs: BlobStore,
        *,
        form: Callable[[Message], bytes] | None = None,
        live: bool = False,
    ) -> int:
        """Print messages, one a line, and return how many there were.

        Args:
            batch: the messages.
            blobs: where their large payloads are.
            form: returns the JSON of a message, for --json; None: as in the log.
            live: flush each line, for a reader who waits for the next.
        """
        count = 0
        show = self._message_printer()
        for count, message in enumerate(batch, 1):  # noqa: B007
            if self.is_json:
                self.json_line(message.to_json() if form is None else form(message))
            else:
                show(message_parts(message, blobs))
            if live:
                self.flush()
        return count

    def message_line(self, parts: Parts) -> None:
        """Print the line of a message, wrapped where it is longer than a terminal is wide."""
        if not self.is_terminal():
            self.line("  ".join(parts).rstrip())
            return
        from .terminal import print_message

        self._has_spoken = True
        print_message(parts, is_cut=False)

    def search_match(self, match: Found, blobs: BlobStore) -> None:
        """Print a message that a search found, with the passage in place of its payload."""
        parts = (*message_parts(match.message, blobs)[:4], match.snippet)
        if not self.is_terminal():
            self.line("  ".join(parts))
            return
        from .terminal import print_message

        self._has_spoken = True
        print_message(parts, match.marks)

    def table(self, headings: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
        """Print rows under headings: a table on a terminal, plain columns in a pipe."""
        cells = cells_of(rows)
        if self.is_terminal():
            from .terminal import print_table

            self._has_spoken = True
            print_table(headings, cells)
            return
        lines = [list(headings), *cells]
        widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
        for cells_of_line in lines:
            padded = (cell.ljust(width) for cell, width in zip(cells_of_line, widths, strict=True))
            self.line("  ".join(padded).rstrip())

    def flush(self) -> None:
        """Write all buffered output."""
        sys.stdout.flush()

    def is_terminal(self) -> bool:
        """Whether data goes to a person's screen."""
        return sys.stdout.isatty()

    def has_watcher(self) -> bool:
        """Whether a person sees notes at once: stderr is a terminal, or -v was given."""
        return self.is_verbose or (sys.stderr is not None and sys.stderr.isatty())

    def is_closed(self) -> bool:
        """Whether the parent has closed the standard output."""
        return isinstance(sys.stdout, ClosedOutput)

    def stream(self) -> BinaryIO:
        """Return the stream of the standard output, each write to which is whole, or an error.

        Raises:
            AckbusError: it is closed.
        """
        return sys.stdout.buffer

    def _message_printer(self) -> Callable[[Parts], None]:
        if not self.is_terminal():
            return lambda parts: self.line("  ".join(parts))
        from .terminal import print_message

        def show(parts: Parts) -> None:
            self._has_spoken = True
            print_message(parts)

        return show

    def _write(self, data: bytes) -> None:
        self._has_spoken = True
        self.stream().write(data)

    # stderr ------------------------------------------------------------------------------

    def note(self, text: str) -> None:
        """Print a line on stderr for people; never data. The same warning is printed once."""
        if text.startswith(_WARNING):
            if text in self._warned:
                return
            if len(self._warned) < _MAX_WARNED:
                self._warned.add(text)
        self._complain(f"bus: {visible(self.completed(text))}")

    def note_at_end(self, text: str) -> None:
        """Print a line on stderr after the command's output; an error replaces it."""
        self._at_end.append(text)

    def print_note_at_end(self) -> None:
        """Print the note that was kept for the end."""
        while self._at_end:
            self.note(self._at_end.pop(0))

    def call_after(self, call: Callable[[], None]) -> None:
        """Call something when all output is out."""
        self._afterwards.append(call)

    def call_afterwards(self) -> None:
        """Call what was to come after the output."""
        while self._afterwards:
            self._afterwards.pop()()

    def note_empty(self, code: int) -> None:
        """Tell a person on a terminal what there is none of, if the command said nothing itself."""
        if self._has_spoken or self.is_json or code not in (0, NOTHING) or not self.is_terminal():
            return
        from .empty import words_for  # a pipe needs none of these words

        words = words_for(self._arguments)
        if words is None and code == NOTHING:
            named = itertools.takewhile(lambda word: not word.startswith("-"), self._arguments)
            words = f"nothing found by '{' '.join(('bus', *named))}'"
        if words is not None:
            self.remark(self.completed(words))

    def json_note(self, record: Mapping[str, object]) -> None:
        """Print an object as a line on stderr, for programs that read it."""
        self._complain(visible_json(_encoded(record).decode()))

    def bell(self) -> None:
        """Ring the terminal's bell."""
        self._complain("\a", end="")

    def detail(self, text: str) -> None:
        """Print a line on stderr if -v was given."""
        if self.is_verbose:
            self.note(text)

    def remark(self, text: str) -> None:
        """Print a line on stderr where that is a terminal, or with -v.

        It is one write that bypasses Python's buffer: a signal handler, which may have interrupted
        another line, can call it.
        """
        if not self.has_watcher():
            return
        with suppress(OSError):  # the reader of stderr has left
            os.write(2, f"bus: {visible(text)}\n".encode())

    def error(self, text: str, cause: BaseException | None = None) -> None:
        """Print an error as one line, cut where it is long; with -v, its causes too.

        With --json the line is an object: `error` is the text, `code` the exit code, and `context`
        has the kind of error, with its facts.
        """
        half = ERROR_CHARS // 2
        text = text if len(text) <= ERROR_CHARS else f"{text[:half]} … {text[-half:]}"
        if self._wants_json():
            self.json_note(_error_record(self.completed(text), cause))
        else:
            self.note(text)
        if not self.is_verbose or cause is None:
            return
        import traceback

        for trace in traceback.format_exception(cause):
            for part in trace.splitlines():
                self._complain(f"  {visible(part)}")

    def _wants_json(self) -> bool:
        """Whether --json was given, even in a line that could not be parsed."""
        words = itertools.takewhile(lambda word: word != "--", self._arguments)
        return self.is_json or "--json" in words

    def show_warnings(self) -> None:
        """Print the library's warnings as lines of ours."""

        def show(message: Warning | str, *_: object, **__: object) -> None:
            self.note(f"{_WARNING}{message}")

        warnings.showwarning = show
        warnings.simplefilter("always", UserWarning)

    def show_logs(self) -> None:
        """Print the library's log as lines of ours: long commands retry after errors, and log them.

        BUS_LOG=debug, or info, shows more.
        """
        import logging

        note = self.note

        class StderrHandler(logging.Handler):
            def emit(self, record: logging.LogRecord) -> None:
                note(f"{record.levelname.lower()}: {record.getMessage()}")

        logger = logging.getLogger("ackbus")
        logger.handlers = [StderrHandler()]  # not beside that of an earlier command in this process
        level = os.environ.get(_LOG_VARIABLE, "").upper()
        if level in ("DEBUG", "INFO"):
            logger.setLevel(level)

    def _complain(self, text: str, end: str = "\n") -> None:
        self._has_spoken = True
        if sys.stderr is None:
            return
        with suppress(OSError):  # the reader of stdout has left; the end of the command reports it
            self.flush()  # where both go into one pipe, what was printed before comes first
        try:
            print(text, end=end, file=sys.stderr, flush=True)
        except OSError:
            return  # the reader of stderr has left


def message_parts(message: Message, blobs: BlobStore) -> Parts:
    """Return the parts of a message's line for people; not yet safe to print."""
    from ...schema.message.times import format_ts

    return (
        str(message.seq),
        format_ts(message.ts_ms),
        f"{message.from_agent} → {message.to_agent or 'all'}",
        message.type,
        preview(message, blobs),
    )


def preview(message: Message, blobs: BlobStore) -> str:
    """Return the first line of a payload, or a note in its place. No blob is read for it."""
    if message.payload_ref is not None:
        return f"[{blob_note(message.payload_ref, blobs)}]"
    if message.payload_error is not None:
        return f"[{message.payload_error}]"
    if not message.has_payload:
        return ""
    return preview_of(message.payload)


def preview_of(payload: object) -> str:
    """Return the first line of a payload, cut where it is long."""
    text = payload if isinstance(payload, str) else json_text(payload)
    first = text[: PREVIEW_CHARS + 1].partition("\n")[0].removesuffix("\r")
    cut = len(first) > PREVIEW_CHARS or len(text.rstrip("\r\n")) > len(first)
    return first[:PREVIEW_CHARS] + "…" if cut else first


def json_text(value: object) -> str:
    """Return a value as JSON on one line."""
    return _encoded(value).decode()


def blob_note(ref: str, blobs: BlobStore) -> str:
    """Return the size and the beginning of the name of a blob, or that it is missing."""
    try:
        size = blobs.size(ref)
    except (BlobMissing, InvalidInput):  # the reference is not the name of a blob
        return "blob_missing"
    return f"blob, {counted(size, 'byte')}, {ref[:REF_CHARS]}…"


def cells_of(rows: Sequence[Sequence[object]]) -> list[list[str]]:
    """Return the cells of a table as text that is safe to show."""
    return [[_cell(cell) for cell in row] for row in rows]


def _cell(cell: object) -> str:
    if isinstance(cell, bool):
        return "yes" if cell else "no"
    return "" if cell is None else visible(str(cell))


def _error_record(text: str, cause: BaseException | None) -> dict[str, object]:
    facts = vars(cause) if isinstance(cause, AckbusError) else {}
    plain = {
        name: value
        for name, value in facts.items()
        if isinstance(value, (str, int, float, type(None))) and not name.startswith("_")
    }
    context = {} if cause is None else {"kind": type(cause).__name__, **plain}
    return {"error": text, "code": getattr(cause, "exit_code", 1), "context": context}


def _encoded(value: object) -> bytes:
    from ...schema.message import lazy_orjson as orjson  # a shell's prompt prints none

    return orjson.dumps(value)
