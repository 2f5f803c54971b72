"""The limits of the message form. docs/protocol.md lists them; a test compares the two."""

from __future__ import annotations

#: Payloads whose JSON is longer than this many bytes are stored as blobs.
INLINE_PAYLOAD_BYTES = 4096

#: The longest JSON payload that a message may carry, in bytes: it is held whole in memory by
#: the publisher and by every reader. Larger things are blobs of their own, which stream.
MAX_PAYLOAD_BYTES = 64 * 1024 * 1024

#: The longest message type, in characters.
MAX_TYPE_CHARS = 255

#: The longest agent name, in characters.
MAX_AGENT_CHARS = 128

#: The longest message id and conversation id, in characters.
MAX_ID_CHARS = 255

#: The longest headers object, in bytes of JSON: headers are metadata that every reader carries.
MAX_HEADERS_BYTES = 16 * 1024

#: The longest lease name, in characters.
MAX_LEASE_NAME_CHARS = 512

#: The longest path or pattern of a reservation, in characters.
MAX_PATH_CHARS = 1024

#: The longest reason of a reservation, in characters: it is one line of what others are told.
MAX_REASON_CHARS = 255

#: The largest seq that a message can have, by a CHECK of the file, and the largest token too: every
#: reader of JSON knows it.
MAX_SEQ = 2**53 - 1

#: The longest duration in the policy of a queue, in seconds: ten years. More is a slip.
MAX_POLICY_S = 315_360_000

#: The largest count: of attempts, of jobs that run at once, of what may wait.
MAX_COUNT = 2**31 - 1
