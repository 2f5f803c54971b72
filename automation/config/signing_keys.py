"""The key that a secret of a webhook stands for."""

from __future__ import annotations

import base64
import binascii

#: The beginning of secrets of the standard form; the rest is the key, in base64.
_STANDARD_PREFIX = "whsec_"


def key_of(secret: str, form: str) -> bytes:
    """Return the key of a secret: its bytes, but in the standard form, which has it in base64.

    Raises:
        ValueError: it has another form; the secret is not repeated.
    """
    if form != "standard":
        return secret.encode(errors="surrogateescape")  # a variable may be any bytes
    text = secret.removeprefix(_STANDARD_PREFIX)
    try:
        key = base64.b64decode(text + "=" * (-len(text) % 4), validate=True)
    except (ValueError, binascii.Error) as error:
        raise ValueError("a secret of the standard form is whsec_ and base64") from error
    if not key:
        raise ValueError("a secret of the standard form is whsec_ and base64")
    return key
