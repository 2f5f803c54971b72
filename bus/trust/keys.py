"""Keys of agents, which sign messages: files of the user, outside of every bus.

A program that can read an agent's file can sign as that agent. So a sandbox that has only its own
agent's file can sign for no other; verification needs all the files.
"""

from __future__ import annotations

import json
import os
import stat
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass

from ...schema.directory.file_lock import FileLock
from ...schema.directory.layout import NoHome, expanded, keys_directory, sync_directory
from ...schema.errors import BusUnusable, InvalidInput, NotFound, Refused
from ...schema.message.names import check_agent
from ...schema.message.times import now_ms

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

#: The length of a secret, in bytes: HMAC-SHA-256 can use no more.
SECRET_BYTES = 32

#: How long the name of a key file may be, in bytes; filesystems take 255.
_MAX_NAME_BYTES = 240

#: How long to wait for other processes that change keys, in seconds: that takes milliseconds.
_LOCK_TIMEOUT_S = 10.0

#: The characters that stand for themselves in the name of a key file.
_PLAIN = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.")


@dataclass(frozen=True, slots=True)
class Key:
    """A key of an agent.

    Attributes:
        id: tells which key made a signature; the beginning of the secret's SHA-256.
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
        return os.path.abspath(expanded(self._named)) if self._named else keys_directory()

    def create(self, agent: str, *, rotate: bool = False) -> Key:
        """Make a key for an agent, which signs from now on.

        Args:
            agent: whose.
            rotate: add a newer key; the older one stays, to verify its signatures.

        Raises:
            InvalidInput: the agent's name breaks its rule, or is too long for a file.
            Refused: it has a key, and `rotate` is not given.
            BusUnusable: the file can't be written.
        """
        check_agent(agent)
        secret = os.urandom(SECRET_BYTES)
        key = Key(_id_of(secret), secret, now_ms())
        with self._locked(self.path(agent)):
            keys = self.of(agent)
            if keys and not rotate:
                raise Refused(
                    f"agent {agent!r} has a key already, {keys[-1].id}; --rotate makes a newer one"
                )
            self._write(agent, [*keys, key])
        return key

    def of(self, agent: str) -> list[Key]:
        """Return an agent's keys, the oldest first; none for most.

        Raises:
            BusUnusable: its file can't be read or makes no sense, or others can read it.
        """
        name = _file_name(agent)
        try:
            return [] if name is None else self._read(os.path.join(self.directory, name), agent)
        except NoHome:
            return []

    def newest(self, agent: str) -> Key | None:
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
        """Delete the file of an agent's keys, also one that can't be used.

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

    def _read(self, path: str, agent: str) -> list[Key]:
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
            if record["agent"] != agent:  # of a filesystem that takes Alice and alice for one
                return []
            return [_key(each) for each in record["keys"]]
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

    def _write(self, agent: str, keys: list[Key]) -> None:
        path = self.path(agent)
        records = [{**asdict(key), "secret": key.secret.hex()} for key in keys]
        text = json.dumps({"agent": agent, "keys": records}, indent=1)
        fresh = f"{path}.new"  # only who holds the lock makes one
        try:
            with suppress(FileNotFoundError):
                os.unlink(fresh)  # of a process that died here
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
            with open(os.open(fresh, flags, 0o600), "w", encoding="utf-8") as file:
                os.fchmod(file.fileno(), 0o600)  # whatever the umask
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


def _key(record: dict[str, object]) -> Key:
    secret = bytes.fromhex(str(record["secret"]))
    if len(secret) != SECRET_BYTES:
        raise ValueError(f"a secret has {len(secret)} bytes, not {SECRET_BYTES}")
    return Key(_id_of(secret), secret, int(str(record["created_at_ms"])))


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
