"""Options that several commands share, each defined once; and secrets among them."""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass
from typing import Annotated, Any, Literal, cast

import typer

from ...schema.errors import InvalidInput
from ...schema.message.names import MAX_SEQ as MAX_SEQ
from ...schema.message.names import seq_in
from ...schema.message.times import parse_since
from ...schema.sqlite.database import WRITE_TIMEOUT_S
from .. import arguments
from ..definition import optional, optional_word
from ..show.output import Output

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ...bus.local_bus import LocalBus
    from ...subscribers.options import Start


# Each option that changes the output sets it while the line is read: an error in the rest of the
# line is printed accordingly.


def _be_verbose(context: typer.Context, on: bool) -> bool:
    context.obj.is_verbose = on
    return on


def _print_json(context: typer.Context, on: bool) -> bool:
    context.obj.is_json = on
    return on


def _name_directory(context: typer.Context, directory: str | None) -> str | None:
    context.obj.name_bus(directory)
    return directory


def _name_user(context: typer.Context, user: bool) -> bool:
    context.obj.name_bus(None, user)
    return user


def directory_option(text: str) -> Any:
    """Return the definition of --dir with its text for --help."""
    return typer.Option(
        "--dir", metavar="DIR", help=text, show_default=False, callback=_name_directory
    )


Directory = Annotated[
    str | None,
    directory_option(
        "The bus directory itself. Default: $BUS_DIR, else the nearest .worker-state/ "
        "from the working directory upwards."
    ),
]
User = Annotated[
    bool,
    typer.Option("--user", help="Use your own bus, outside of any project.", callback=_name_user),
]
Json = Annotated[
    bool, typer.Option("--json", help="Print one JSON object a line.", callback=_print_json)
]
Verbose = Annotated[
    bool,
    typer.Option(
        "--verbose",
        "-v",
        help="Print more on stderr; with an error, also its causes.",
        callback=_be_verbose,
        is_eager=True,
    ),
]


@dataclass(frozen=True, kw_only=True)
class BusPlaceOnly:
    """The options of a command that uses a bus, and prints no data: its place, and verbosity."""

    directory: Directory = None
    user: User = False
    verbose: Verbose = False
    output: Output

    def open(
        self,
        *,
        write_timeout_s: float = WRITE_TIMEOUT_S,
        lives_long: bool = False,
        exports_all: bool = False,
    ) -> LocalBus:
        """Open the bus; a write waits up to `write_timeout_s` for other writers.

        `lives_long`, `exports_all`: as for `open_bus`.
        """
        return arguments.open_bus(
            self.output,
            self.directory,
            self.user,
            write_timeout_s=write_timeout_s,
            lives_long=lives_long,
            exports_all=exports_all,
        )

    def find(self) -> tuple[str, str]:
        """Return the directory of the bus, and the option or place that named it."""
        return arguments.find(self.directory, self.user)

    def named(self) -> str | None:
        """Return the directory that the options name, or None."""
        return arguments.named_by(self.directory, self.user)


@dataclass(frozen=True, kw_only=True)
class _OutputForm:
    """The form of what a command prints."""

    json: Json = False


@dataclass(frozen=True, kw_only=True)
class BusPlace(BusPlaceOnly, _OutputForm):
    """The options of a command that uses a bus, and prints data: its place, and --json."""


#: The default of a command's parameter for the place, which Python requires; it is always given.
HERE: Any = None

Agent = Annotated[str, typer.Argument(metavar="AGENT", help="The name of the agent.")]
#: The agent of a command that is about the caller's own inbox.
OwnAgent = Annotated[
    str | None, optional_word("AGENT", "The name of the agent. Default: $BUS_AGENT.")
]
#: The help of every `--type`.
TYPE_HELP = "Only messages of this type; * stands for one part, a last > for the rest."

TypePattern = Annotated[str | None, optional("P", TYPE_HELP, "--type")]
Wait = Annotated[
    str | None,
    optional(
        "S", "How long to wait when there is nothing: seconds, or like 500ms, 10m, 2h.", "--wait"
    ),
]
Since = Annotated[
    str | None,
    optional(
        "T",
        "Only since a time like 2026-01-10T14:00:00Z or in epoch milliseconds, or since "
        "an age like 10m.",
    ),
]
OfAgent = Annotated[str | None, optional("A", "Only from or to this agent.", "--agent")]
OfConversation = Annotated[
    str | None,
    optional(
        "C",
        "Only this conversation: its first message's id, or the seq of any in it.",
        "--conversation",
    ),
]
By = Annotated[
    str | None,
    optional(
        "A", "The actor, for the record. Default: $BUS_AGENT, else your user and host.", "--by"
    ),
]
#: The queue of a command that is about one.
QueueName = Annotated[str, typer.Argument(metavar="NAME", help="The name of the queue.")]
#: The queue of a command that is about jobs, which may be in several.
OfQueue = Annotated[str | None, optional("Q", "Only this queue.", "--queue")]


def seq_or_word(text: str) -> Start:
    """Return the seq that a text is, or the text, which the library checks."""
    return seq_in(text) or cast("Literal['now']", text)


def conversation_named(bus: LocalBus, key: str) -> str:
    """Return the conversation that a word names: by its id, or the id or seq of a message in it.

    The id of a conversation wins over others; what names nothing is returned as it is.
    """
    from ...bus.log.log import find_message

    if next(bus.read(conversation=key), None) is not None:
        return key
    message = find_message(bus, key)
    return key if message is None else message.conversation


def since_time(text: str, now_ms: int, option: str = "--since") -> int:
    """Return the epoch millisecond of --since, or of another option of its kind."""
    try:
        return parse_since(text, now_ms)
    except InvalidInput as error:
        raise InvalidInput(f"{option}: {error}; or give an age like 10m") from error


# Secrets that sign posted messages: from a file or a variable, never from an argument.

#: The environment variable with the secrets, separated by spaces.
SECRETS_VARIABLE = "BUS_WEBHOOK_SECRET"

#: The most that is read of a file of secrets, in bytes, and the fewest bytes of a key.
_MAX_BYTES, _MIN_KEY_BYTES = 65_536, 16


def signing_keys(file: str | None) -> list[bytes]:
    """Return the keys of the secrets in a file, or else in the environment.

    Raises:
        InvalidInput: there are none, others can read the file, or a secret has another form.
    """
    from ...automation.config.values import key_of

    where = f"${SECRETS_VARIABLE}" if file is None else file
    text = os.environ.get(SECRETS_VARIABLE, "") if file is None else _read(file)
    secrets = text.split()
    if not secrets:
        raise InvalidInput(
            f"{where} has no secret: give --secret-file with one like whsec_ and base64,"
            " which the receiver knows too"
        )
    try:
        keys = [key_of(secret, "standard") for secret in secrets]
    except ValueError as error:
        raise InvalidInput(f"{where}: {error}") from error
    if min(map(len, keys)) < _MIN_KEY_BYTES:
        raise InvalidInput(f"{where}: a secret has fewer than {_MIN_KEY_BYTES} bytes")
    return keys


def _read(file: str) -> str:
    try:
        with open(file, "rb") as opened:
            mode = os.fstat(opened.fileno()).st_mode
            if stat.S_ISREG(mode) and stat.S_IMODE(mode) & 0o077:
                raise InvalidInput(f"others can read {file}: make it yours alone with chmod 600")
            return opened.read(_MAX_BYTES).decode("ascii")
    except OSError as error:
        raise InvalidInput(f"{file} can't be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise InvalidInput(f"{file} has no secret: it is no plain text") from error
