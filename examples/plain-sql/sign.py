"""Signing and verifying messages in plain SQL, without ackbus: docs/protocol.md has the form.

`python sign.py` verifies the newest message of alice, whose key `bus key create alice` has made,
and publishes one that it has signed.
"""

import hashlib
import hmac
import json
import os
import sqlite3


def number(value):
    """Return a fraction in the fewest digits."""
    text = repr(value)  # it has the fewest digits, and 1e-05 for 0.00001, 1e-07 for 1e-7
    digits, e, power = text.partition("e-")
    if not e:
        return text
    if int(power) > 5:
        return f"{digits}e-{int(power)}"
    return f"{'-' * (value < 0)}0.0000{digits.lstrip('-').replace('.', '')}"


def written(value):
    """Return a value as canonical JSON."""
    if isinstance(value, dict):
        return "{" + ",".join(f"{written(k)}:{written(value[k])}" for k in sorted(value)) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(written, value)) + "]"
    return number(value) if isinstance(value, float) else json.dumps(value, ensure_ascii=False)


def canonical(value):
    """Return the bytes of canonical JSON."""
    return written(value).encode()


def form(row):
    """Return the bytes that a signature is made of."""
    headers = json.loads(row["headers"] or "{}")
    headers.pop("signature", None)
    payload = row["payload_ref"]
    if row["payload"] is not None:
        payload = "sha256-" + hashlib.sha256(canonical(json.loads(row["payload"]))).hexdigest()
    names = [
        "id",
        "ts_ms",
        "from_agent",
        "to_agent",
        "type",
        "correlation_id",
        "in_reply_to",
        "priority",
    ]
    return canonical(["ackbus-signature-1", *(row[name] for name in names), headers, payload])


def sign(row, secret):
    """Return the signature of a message."""
    key_id = hashlib.sha256(secret).hexdigest()[:16]
    return f"v1.{key_id}.{hmac.new(secret, form(row), hashlib.sha256).hexdigest()}"


def main():
    """Verify alice's newest message, and publish one that is signed."""
    message = {
        "id": "m-1",
        "ts_ms": 1768053600000,
        "from_agent": "alice",
        "to_agent": "bob",
        "type": "task.done",
        "correlation_id": None,
        "in_reply_to": None,
        "priority": 1,
        "headers": '{"attempt":2}',
        "payload": '{"ok":true}',
        "payload_ref": None,
    }
    assert form(message).decode() == (
        '["ackbus-signature-1","m-1",1768053600000,"alice","bob","task.done",null,null,1,{"attempt":2},'
        '"sha256-4062edaf750fb8074e7e83e0c9028c94e32468a8b6f1614774328ef045150f93"]'
    )
    assert sign(message, bytes(range(32))) == (
        "v1.630dcd2966c43366.59bfd99ba16ee40e173468aa5e6be1781413fb560e8eda45c820fb7e5da8218f"
    )

    with open(os.path.expanduser("~/.config/ackbus/keys/alice.key")) as file:
        secret = bytes.fromhex(json.load(file)["keys"][-1]["secret"])
    db = sqlite3.connect(".worker-state/bus.db", timeout=5, isolation_level=None)
    db.row_factory = sqlite3.Row
    sent = db.execute(
        "SELECT * FROM messages WHERE from_agent = 'alice' ORDER BY seq DESC"
    ).fetchone()
    assert hmac.compare_digest(json.loads(sent["headers"])["signature"], sign(sent, secret))

    message["headers"] = json.dumps({"attempt": 2, "signature": sign(message, secret)})
    columns = ", ".join(message)
    values = ", ".join(f":{name}" for name in message)
    db.execute(f"INSERT INTO messages ({columns}) VALUES ({values})", message)


if __name__ == "__main__":
    main()
