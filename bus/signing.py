"""Keys of agents, and the signed form of their messages.

A signature is the header `signature`, so it travels wherever its message goes: an HMAC-SHA-256
with a key of the sender over the content of the message, its time included, in a form that
docs/protocol.md gives for other programs.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import re
import stat
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import asdict, dataclass

import orjson

from ..schema.directory.file_lock import FileLock
from ..schema.directory.layout import NoHome, expand_home, keys_directory, sync_directory
from ..schema.errors import BusUnusable, InvalidInput, NotFound, Refused
from ..schema.message.canonical_json import encode
from ..schema.message.draft import SIGNATURE_HEADER
from ..schema.message.names import MAX_HEADERS_BYTES, check_agent
from ..schema.message.times import now_ms

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from ..schema.message.draft import MessageRow
    from ..schema.message.message import Message

# Keys of agents, which sign messages: files of the user, outside of every bus.
#
# A program that can read an agent's file can sign as that agent. So a sandbox that has only its
# own agent's file can sign for no other; verification needs all the files.

#: The length of a secret, in bytes: HMAC-SHA-256 can use no more.
SECRET_BYTES = 32

#: How long the name of a key file may be, in bytes; filesystems take 255.
_MAX_NAME_BYTES = 240

#: How long to wait for other processes that change keys, in seconds: that takes milliseconds.
_LOCK_TIMEOUT_S = 10.0

#: The characters that stand for themselves in the name of a key file.
_PLAIN = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.")


@dataclass(frozen=True, slots=True)
class SigningKey:
    """A key of an agent.

    Attributes:
        id: names the key in a signature; the beginning of the secret's SHA-256.
        secret: the key itself.
        created_at_ms: when it was made, in epoch milliseconds.
    """

    id: str
    secret: bytes
    created_at_ms: int

    def __repr__(self) -> str:
        return f"<Key {self.id}>"  # the secret must not reach a log or a traceback


class Keyring:
    """The keys of one user, a file for each agent.

    Args:
        directory: where they are; None for `BUS_KEYS_DIR`, or the user's configuration.
    """

    def __init__(self, directory: str | None = None) -> None:
        self._named = directory

    @property
    def directory(self) -> str:
        """The folder that they are in.

        Raises:
            NoHome: it has no place.
        """
        return os.path.abspath(expand_home(self._named)) if self._named else keys_directory()

    def create(self, agent: str, *, rotate: bool = False) -> SigningKey:
        """Make a key for an agent, which signs from now on.

        Args:
            agent: whose.
            rotate: add a newer key; the older key stays, to verify its signatures.

        Raises:
            InvalidInput: the agent's name breaks its rule, or is too long for a file.
            Refused: it has a key, and `rotate` is not given.
            BusUnusable: the file can't be written.
        """
        check_agent(agent)
        secret = os.urandom(SECRET_BYTES)
        key = SigningKey(_id_of(secret), secret, now_ms())
        with self._locked(self.path(agent)):
            keys = self.of(agent)
            if keys and not rotate:
                raise Refused(
                    f"agent {agent!r} has a key already, {keys[-1].id}; --rotate makes a newer one"
                )
            self._write(agent, [*keys, key])
        return key

    def of(self, agent: str) -> list[SigningKey]:
        """Return an agent's keys, the oldest first; none for most.

        Raises:
            BusUnusable: its file can't be read or makes no sense, or others can read it.
        """
        name = _file_name(agent)
        try:
            return [] if name is None else self._read(os.path.join(self.directory, name), agent)
        except NoHome:
            return []

    def newest(self, agent: str) -> SigningKey | None:
        """Return the key that an agent signs with, or None. Raises as `of` does."""
        keys = self.of(agent)
        return keys[-1] if keys else None

    def agents(self) -> list[str]:
        """Return the names of all agents that have keys here, sorted.

        Raises:
            BusUnusable: the directory, or a file in it, can't be read.
        """
        try:
            names = [name for name in os.listdir(self.directory) if name.endswith(_SUFFIX)]
        except (FileNotFoundError, NotADirectoryError):
            return []
        except OSError as error:
            raise BusUnusable(
                f"the keys in {self.directory} can't be read: {error.strerror}"
            ) from error
        return sorted(_agent_of(name) for name in names)

    def path(self, agent: str) -> str:
        """Return where the file of an agent's keys is, or would be.

        Raises:
            InvalidInput: the agent's name is too long for a file.
        """
        name = _file_name(agent)
        if name is None:
            raise InvalidInput(f"the name {agent!r} is too long for the file of a key")
        return os.path.join(self.directory, name)

    def remove(self, agent: str) -> int | None:
        """Delete the file of an agent's keys, also if it can't be used.

        Returns:
            How many keys were in it; None where it could not be used.

        Raises:
            NotFound: it has none.
            BusUnusable: the file can't be deleted.
        """
        count: int | None
        try:
            count = len(self.of(agent))
        except BusUnusable:
            count = None
        if count == 0:
            raise NotFound(f"agent {agent!r} has no key in {self.directory}")
        try:
            with self._locked(self.path(agent)):  # who adds a key reads the others first
                os.unlink(self.path(agent))
                sync_directory(self.directory)
        except OSError as error:
            raise BusUnusable(f"{self.path(agent)} can't be deleted: {error.strerror}") from error
        return count

    def _read(self, path: str, agent: str) -> list[SigningKey]:
        try:
            with open(path, "rb") as file:
                if stat.S_IMODE(os.fstat(file.fileno()).st_mode) & 0o077:
                    raise BusUnusable(
                        f"others can read the key file {path}, so it proves nothing; make it"
                        f" yours alone with chmod 0600, or delete it with 'bus key remove {agent}'"
                    )
                record = json.load(file)
        except (FileNotFoundError, NotADirectoryError):
            return []
        except OSError as error:
            raise BusUnusable(f"the key file {path} can't be read: {error.strerror}") from error
        except (ValueError, RecursionError) as error:
            raise _no_key_file(path, agent) from error
        try:
            if record["agent"] != agent:  # the filesystem does not distinguish Alice and alice
                return []
            return [_key(key) for key in record["keys"]]
        except (LookupError, TypeError, ValueError) as error:
            raise _no_key_file(path, agent) from error

    @contextmanager
    def _locked(self, path: str) -> Iterator[None]:
        """Lock the keys against other processes inside the block; the directory exists then."""
        try:
            os.makedirs(self.directory, mode=0o700, exist_ok=True)
            lock = FileLock(os.path.join(self.directory, ".lock"))
        except OSError as error:
            raise BusUnusable(f"{path} can't be written: {error.strerror}") from error
        try:
            lock.acquire(timeout_s=_LOCK_TIMEOUT_S)
            yield
        finally:
            lock.close()

    def _write(self, agent: str, keys: list[SigningKey]) -> None:
        path = self.path(agent)
        records = [{**asdict(key), "secret": key.secret.hex()} for key in keys]
        text = json.dumps({"agent": agent, "keys": records}, indent=1)
        fresh = f"{path}.new"  # only the holder of the lock makes it
        try:
            with suppress(FileNotFoundError):
                os.unlink(fresh)  # of a process that died here
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
            with open(os.open(fresh, flags, 0o600), "w", encoding="utf-8") as file:
                os.fchmod(file.fileno(), 0o600)  # with any umask
                file.write(text + "\n")
                file.flush()
                os.fsync(file.fileno())
            os.rename(fresh, path)
            sync_directory(self.directory)
        except OSError as error:
            with suppress(OSError):  # it has the secret, and its name would be in the way
                os.unlink(fresh)
            raise BusUnusable(f"{path} can't be written: {error.strerror}") from error


_SUFFIX = ".key"


def _no_key_file(path: str, agent: str) -> BusUnusable:
    return BusUnusable(
        f"{path} is not a key file, or a damaged one; put it back from a copy, or delete it with"
        f" 'bus key remove {agent}'"
    )


def _key(record: dict[str, object]) -> SigningKey:
    secret = bytes.fromhex(str(record["secret"]))
    if len(secret) != SECRET_BYTES:
        raise ValueError(f"a secret has {len(secret)} bytes, not {SECRET_BYTES}")
    return SigningKey(_id_of(secret), secret, int(str(record["created_at_ms"])))


def _id_of(secret: bytes) -> str:
    import hashlib  # slow to load, and most publishers have no key

    return hashlib.sha256(secret).hexdigest()[:16]


def _file_name(agent: str) -> str | None:
    """Return the name of an agent's file, with the agent's name as in a URL; None if too long."""
    name = "".join(
        char if char in _PLAIN else "".join(f"%{byte:02X}" for byte in char.encode())
        for char in agent
    )
    return f"{name}{_SUFFIX}" if len(name) <= _MAX_NAME_BYTES else None


def _agent_of(name: str) -> str:
    from urllib.parse import unquote

    return unquote(name.removesuffix(_SUFFIX))


#: The first element of what is signed, and the first part of a signature: the version of the form.
FORM, VERSION = "ackbus-signature-1", "v1"

#: The agents to sign for, where a program publishes for others; None: all with keys here.
_only: ContextVar[tuple[str, ...] | None] = ContextVar("ackbus_signs_only_for", default=None)


def sign_only_for(agent: str | None) -> None:
    """Restrict signing in this task, and in its threads, to one agent, or to none.

    A server acts for its clients: signing under a name that a client merely claims is forgery.

    Args:
        agent: the authenticated agent; None: there is none.
    """
    _only.set(() if agent is None else (agent,))


class Signer:
    """Signs for the agents whose keys this user has; others' messages stay as they are."""

    def __init__(self) -> None:
        self._keys = Keyring()
        self._found: dict[str, SigningKey | None] = {}

    def sign(self, rows: Iterable[MessageRow]) -> None:
        """Put a signature into the headers of rows that are about to be stored.

        Raises:
            BusUnusable: the key of a sender can't be read, or others can read it.
            InvalidInput: the headers have no room for a signature.
        """
        only = _only.get()
        for row in rows:
            if only is not None and row.from_agent not in only:
                continue
            key = self._key_of(row.from_agent)
            if key is not None:
                _sign(row, key)

    def _key_of(self, agent: str) -> SigningKey | None:
        if agent not in self._found:
            self._found[agent] = self._keys.newest(agent)
        return self._found[agent]


def _sign(row: MessageRow, key: SigningKey) -> None:
    headers = orjson.loads(row.headers) if row.headers else {}
    headers.pop(SIGNATURE_HEADER, None)
    payload = row.payload_ref or (None if row.payload is None else _name_of(row.payload.encode()))
    headers[SIGNATURE_HEADER] = sign(_form(row, payload, headers), key)
    data = encode(headers, "headers")
    if len(data) > MAX_HEADERS_BYTES:
        raise InvalidInput(
            f"the headers are {len(data)} bytes of JSON with the signature; the limit is"
            f" {MAX_HEADERS_BYTES}"
        )
    row.headers = data.decode()


def sign(form: bytes, key: SigningKey) -> str:
    """Return the signature of a form."""
    return f"{VERSION}.{key.id}.{hmac.new(key.secret, form, hashlib.sha256).hexdigest()}"


def is_right(signature: str, message: Message, key: SigningKey) -> bool:
    """Whether a key's signature fits a message as it is stored, or as an older form stored it."""
    return any(
        hmac.compare_digest(signature.encode(), sign(form_of(message, write), key).encode())
        for write in (encode, _encode_without_plus)
    )


def form_of(message: Message, write: Callable[[object], bytes] = encode) -> bytes:
    """Return the bytes of a stored message that are signed.

    Args:
        message: the message.
        write: makes canonical JSON of a value.
    """
    headers = {name: value for name, value in message.headers.items() if name != SIGNATURE_HEADER}
    # The payload that readers take goes first: without the table's CHECK a row could have both.
    payload = _name_of_payload(message, write) or message.payload_ref
    return _form(message, payload, headers, write)


def _encode_without_plus(value: object) -> bytes:
    """Return canonical JSON with `1e16` for `1e+16`, as orjson below 3.11.7 wrote it."""
    return re.sub(rb'("(?:[^"\\]|\\.)*")|(?<=e)\+', rb"\1", encode(value))


def _form(
    of: MessageRow | Message,
    payload: str | None,
    headers: dict[str, object],
    write: Callable[[object], bytes] = encode,
) -> bytes:
    return write(
        [
            FORM,
            of.id,
            of.ts_ms,
            of.from_agent,
            of.to_agent,
            of.type,
            of.correlation_id,
            of.in_reply_to,
            of.priority,
            headers,
            payload,
        ]
    )


def _name_of_payload(message: Message, write: Callable[[object], bytes]) -> str | None:
    """Return the name that a payload has, or would have, as a blob."""
    raw = message.raw_payload
    if raw is None:
        return None
    # The canonical form is hashed, as an import and the archive each spell a payload their way.
    return _name_of(write(message.payload) if message.payload_error is None else raw.encode())


def _name_of(data: bytes) -> str:
    return f"sha256-{hashlib.sha256(data).hexdigest()}"
