"""Secrets that sign posted messages: from a file or a variable, never from an argument."""

from __future__ import annotations

import os
import stat

from ...automation.config.snapshot import key_of
from ...schema.errors import InvalidInput

#: The environment variable with the secrets, separated by spaces.
SECRETS_VARIABLE = "BUS_WEBHOOK_SECRET"

#: The most that is read of a file of secrets, in bytes, and the fewest bytes of a key.
_MAX_BYTES, _MIN_KEY_BYTES = 65_536, 16


def signing_keys(file: str | None) -> list[bytes]:
    """Return the keys of the secrets in a file, or else in the environment.

    Raises:
        InvalidInput: there are none, others can read the file, or a secret has another form.
    """
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
