"""Signing: what is signed, that it travels, that it is no content, and that keys stay private."""

import hashlib
import hmac
import io
import json
import os
from pathlib import Path

import pytest

from ackbus import Bus, Draft, Message
from ackbus.bus.signing import Keyring, SigningKey
from ackbus.bus.verification import Verification
from ackbus.errors import IdConflict, InvalidInput
from ackbus.export.archive_writer import Archiver
from ackbus.export.jsonl.exporter import Exporter
from ackbus.schema.message.names import MAX_HEADERS_BYTES

from ..programs import raw_sql, run_program, tamper


def verified(bus: Bus, keyring: Keyring, *, strict: bool = False) -> list[str]:
    """The kinds of the problems with the signatures of a bus."""
    walk = Verification(bus, keyring=keyring, chain=False, strict=strict)
    return [problem.kind for problem in walk.problems()]


def signature_by_stdlib(message: Message, key: SigningKey) -> str:
    """The signature by docs/protocol.md, without a line of ours."""

    def canonical(value: object) -> bytes:
        form = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
        return form.encode()

    payload = message.payload_ref
    if message.raw_payload is not None:
        data = canonical(json.loads(message.raw_payload))
        payload = "sha256-" + hashlib.sha256(data).hexdigest()
    headers = json.loads(message.raw_headers or "{}")
    headers.pop("signature", None)
    sender = (message.from_agent, message.to_agent, message.type)
    answers = (message.correlation_id, message.in_reply_to, message.priority)
    form = canonical(
        ["ackbus-signature-1", message.id, message.ts_ms, *sender, *answers, headers, payload]
    )
    assert key.id == hashlib.sha256(key.secret).hexdigest()[:16]
    return f"v1.{key.id}.{hmac.new(key.secret, form, hashlib.sha256).hexdigest()}"


def publish_every_form(bus: Bus, sender: str) -> list[Message]:
    first = bus.publish("t", {"é": [1.5, None, "🚌"]}, from_agent=sender, headers={"b": 1, "a": 2})
    bus.publish_many(
        [
            Draft("t", from_agent=sender),
            Draft("t", None, from_agent=sender, to_agent=sender, priority=0),
            Draft("t", "x" * 5000, from_agent=sender),
            Draft("t", "answer", from_agent=sender, in_reply_to=first.id),
            Draft("t", "named", from_agent=sender, correlation_id="talk"),
        ]
    )
    bus.publish("t", payload_ref=bus.blobs.put(b"\x00no JSON"), from_agent=sender)
    bus.publish("t", from_agent=sender, in_reply_to=first.id)
    return list(bus.read())


def test_every_message_of_an_agent_with_a_key_is_signed_as_documented(
    bus: Bus, alice: SigningKey, keyring: Keyring
) -> None:
    """Q-03: of one with a blob, a broadcast, an answer, a batch: what others compute too."""
    for message in publish_every_form(bus, "alice"):
        assert message.headers["signature"] == signature_by_stdlib(message, alice)
    assert verified(bus, keyring, strict=True) == []


def test_example_of_the_protocol_is_what_is_signed(bus: Bus) -> None:
    """The literal values that examples/plain-sql/sign.py gives to other programs."""
    from ackbus.bus.signing import sign  # the form itself is no public name

    key = SigningKey("630dcd2966c43366", bytes(range(32)), 0)
    draft = Draft(
        "task.done",
        {"ok": True},
        from_agent="alice",
        to_agent="bob",
        id="m-1",
        ts_ms=1_768_053_600_000,
        headers={"attempt": 2},
    )
    bus.log.append([draft])
    (message,) = bus.read()
    from ackbus.bus.signing import form_of

    mac = "59bfd99ba16ee40e173468aa5e6be1781413fb560e8eda45c820fb7e5da8218f"
    assert sign(form_of(message), key) == f"v1.{key.id}.{mac}" == signature_by_stdlib(message, key)
    assert mac in (Path(__file__).parents[2] / "examples/plain-sql/sign.py").read_text("utf-8")


def test_agent_without_a_key_is_not_signed_for(
    bus: Bus, alice: SigningKey, keyring: Keyring
) -> None:
    bus.publish("t", from_agent="bob", headers={"a": 1})
    assert next(bus.read()).headers == {"a": 1}
    assert verified(bus, keyring) == []
    assert verified(bus, keyring, strict=True) == ["unsigned"]


def test_without_keys_nothing_of_signing_is_loaded_or_opened(bus_dir: Path) -> None:
    """A publisher without keys pays for one look at the name of their directory."""
    told = run_program(
        """
        import os, sys
        os.environ["BUS_KEYS_DIR"] = "/no/such/keys"
        opened = []
        sys.addaudithook(lambda event, args: event == "open" and opened.append(str(args[0])))
        from ackbus import Bus
        with Bus.open(sys.argv[1]) as bus:
            for _ in range(50):
                bus.publish("t", from_agent="alice")
        rooms = [f"ackbus.bus.{name}" for name in ("keys", "signing", "chain", "verification")]
        print([name for name in ("hmac", "platformdirs", *rooms) if name in sys.modules])
        print([path for path in opened if path.startswith("/no/such/keys")])
        """,
        bus_dir,
    )
    assert told == "[]\n[]\n"


def test_publishing_again_is_the_same_content_whatever_the_key(bus: Bus, keyring: Keyring) -> None:
    """Promise 3: unsigned, signed, signed with a newer key: one message, and the first one."""

    def publish(on: Bus, payload: object) -> int:
        return on.publish("t", payload, from_agent="alice", id="m", headers={"a": 1}).seq

    assert publish(bus, "x") == 1
    for rotate in (False, True):
        keyring.create("alice", rotate=rotate)
        with Bus.open(bus.layout.directory) as again:
            assert publish(again, "x") == 1
            with pytest.raises(IdConflict, match="another payload;"):
                publish(again, "y")
            with pytest.raises(IdConflict, match="another headers;"):
                again.publish("t", "x", from_agent="alice", id="m", headers={"a": 2})
    assert bus.log.newest_seq() == 1


def test_running_publisher_sees_a_new_key_within_a_minute(bus_dir: Path, keyring: Keyring) -> None:
    now = 1_768_053_600_000
    with Bus.open(bus_dir, clock=lambda: now) as bus:
        bus.publish("t", from_agent="alice")
        keyring.create("alice")
        now += 60_001
        bus.publish("t", from_agent="alice")
        now -= 3_600_000  # the clock is set back, and another key made
        keyring.create("alice", rotate=True)
        bus.publish("t", from_agent="alice")
        signed = [message.headers.get("signature", "")[:19] for message in bus.read()]
    assert signed == ["", *(f"v1.{key.id}" for key in keyring.of("alice"))]


def test_headers_without_room_for_a_signature_are_refused(bus: Bus, alice: SigningKey) -> None:
    """Else an export of what was published could not be imported."""
    full = {"h": "x" * (MAX_HEADERS_BYTES - 8)}
    bus.publish("t", from_agent="bob", headers=full)
    with pytest.raises(InvalidInput, match="with the signature; the limit is 16384"):
        bus.publish("t", from_agent="alice", headers=full)
    assert bus.log.newest_seq() == 1


def test_signatures_survive_export_import_and_archive(
    bus: Bus, alice: SigningKey, keyring: Keyring, tmp_path: Path
) -> None:
    """Q-03: whoever has the key can verify there too."""
    sent = publish_every_form(bus, "alice")
    Exporter(bus).export_once()
    with Bus.init(tmp_path / "other") as other:
        for ref in bus.blobs:
            other.blobs.put(bus.blobs.read(ref))
        other.publish("t", "not from there", from_agent="bob")
        with open(bus.layout.jsonl, "rb") as lines:
            assert other.import_jsonl(lines).stored == len(sent)
        assert verified(other, keyring) == []
    with Archiver(bus) as archiver:
        archiver.archive(len(sent) - 1)
    assert verified(bus, keyring, strict=True) == []


TAMPERINGS = [
    "from_agent = 'mallory'",
    "to_agent = 'bob'",
    "type = 'other'",
    "payload = '{\"pay\":1000}'",
    "ts_ms = ts_ms + 1",
    "priority = 0",
    "id = 'another'",
    "correlation_id = 'another'",
    "in_reply_to = 'another'",
    "headers = json_set(headers, '$.a', 3)",
    "headers = json_set(headers, '$.more', 3)",
]


@pytest.mark.parametrize("change", TAMPERINGS)
def test_any_change_of_a_signed_message_is_found(
    change: str, bus: Bus, keyring: Keyring, alice: SigningKey
) -> None:
    """Q-03: by a program that turns triggers off."""
    keyring.create("mallory")
    bus.publish("t", {"pay": 1}, from_agent="alice", headers={"a": 2})
    bus.publish("t", {"pay": 1}, from_agent="alice", headers={"a": 2})
    tamper(Path(bus.layout.directory), f"UPDATE messages SET {change} WHERE seq = 1")
    expected = "forged" if "mallory" in change else "altered"
    walk = Verification(bus, keyring=keyring)
    assert [(each.kind, each.seq) for each in walk.problems()] == [(expected, 1)]
    assert walk.counts.signed == 1


def test_payload_that_readers_get_is_the_one_that_was_signed(
    bus: Bus, keyring: Keyring, alice: SigningKey
) -> None:
    """A row with both a payload and the signed one as its blob, by who turns the CHECK off."""
    bus.publish("t", {"pay": 1}, from_agent="alice")
    ref = bus.blobs.put(b'{"pay":1}')
    tamper(
        Path(bus.layout.directory),
        f"UPDATE messages SET payload = '{{\"pay\":1000}}', payload_ref = '{ref}'",
    )
    assert verified(bus, keyring) == ["altered"]


FORGERIES = {
    "unsigned": "'{}'",
    "unsigned, and of before the key": "'{}'",
    "somebody else's key": '\'{"signature":"v1.0123456789abcdef.00"}\'',
    "no signature at all": '\'{"signature":""}\'',
    "another version": '\'{"signature":"v2.{id}.00"}\'',
    "the right key's id": '\'{"signature":"v1.{id}.00"}\'',
    "too much": '\'{"signature":"v1.{id}.00.00"}\'',
    "no text": "'{\"signature\":7}'",
}


@pytest.mark.parametrize("name", FORGERIES)
def test_forged_sender_is_found(name: str, bus: Bus, keyring: Keyring, alice: SigningKey) -> None:
    """Q-03: forged `from` detected by verify."""
    bus.publish("t", from_agent="alice")
    ts_ms = 1 if "before" in name else alice.created_at_ms
    headers = FORGERIES[name].replace("{id}", alice.id)
    raw_sql(
        Path(bus.layout.directory),
        "INSERT INTO messages (id, ts_ms, from_agent, type, headers)"
        f" VALUES ('f', {ts_ms}, 'alice', 't', {headers})",
    )
    for from_seq in (1, 2):  # who begins behind what the agent signed knows of it too
        (problem,) = Verification(bus, keyring=keyring, from_seq=from_seq).problems()
        assert (problem.kind in ("forged", "altered"), problem.seq) == (True, 2)
        assert (problem.id, problem.from_agent) == ("f", "alice")


def test_messages_from_before_the_key_are_no_forgeries(bus: Bus, keyring: Keyring) -> None:
    bus.publish("t", from_agent="alice")
    while keyring.create("alice", rotate=True).created_at_ms == next(bus.read()).ts_ms:
        keyring.remove("alice")  # in the same millisecond it would not be before
    assert verified(bus, keyring) == []


def test_rotated_key_leaves_what_was_signed_before_right(bus: Bus, keyring: Keyring) -> None:
    for rotate in (False, True):
        keyring.create("alice", rotate=rotate)
        with Bus.open(bus.layout.directory) as again:
            again.publish("t", from_agent="alice")
    assert verified(bus, keyring, strict=True) == []
    assert len({message.headers["signature"][:19] for message in bus.read()}) == 2


def test_key_that_is_not_here_is_counted_and_not_judged(
    bus: Bus, keyring: Keyring, alice: SigningKey
) -> None:
    bus.publish("t", from_agent="alice")
    assert keyring.remove("alice") == 1
    walk = Verification(bus, keyring=keyring)
    assert list(walk.problems()) == []
    assert walk.counts.unknown == 1
    assert verified(bus, keyring, strict=True) == ["unknown_key"]


def test_altered_and_missing_payloads_are_found(bus: Bus, keyring: Keyring) -> None:
    """A signature has only the name of a blob; the blob itself is read."""
    for letter in "ab":
        bus.publish("t", letter * 5000, from_agent="bob")
    first, second = (message.payload_ref for message in bus.read())
    assert first is not None
    assert second is not None
    Path(bus.layout.blobs, first).write_text("other")
    Path(bus.layout.blobs, second).unlink()
    assert verified(bus, keyring) == ["payload", "payload"]


def test_lines_that_were_altered_on_the_way_are_found_after_an_import(
    bus: Bus, alice: SigningKey, keyring: Keyring, tmp_path: Path
) -> None:
    """In bus.jsonl: another body, another sender, and the signature left out."""
    for number in range(4):
        bus.publish("t", {"number": number}, from_agent="alice")
    Exporter(bus).export_once()
    lines = Path(bus.layout.jsonl).read_bytes().splitlines(keepends=True)
    lines[0] = lines[0].replace(b'{"number":0}', b'{"number":9}')
    lines[1] = lines[1].replace(b'"from":"alice"', b'"from":"mallory"')
    record = json.loads(lines[2])
    del record["headers"]
    lines[2] = json.dumps(record).encode() + b"\n"
    with Bus.init(tmp_path / "other") as other:
        assert other.import_jsonl(io.BytesIO(b"".join(lines))).stored == 4
        assert verified(other, keyring) == ["altered", "forged"]
        assert verified(other, keyring, strict=True) == ["altered", "unknown_key", "forged"]


def test_keys_that_this_user_can_not_reach_keep_nobody_from_publishing(
    bus: Bus, keyring: Keyring, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a sandbox with no access to their directory, agents are those without keys."""
    keyring.create("bob")
    monkeypatch.setattr(os, "access", lambda path, mode: path != keyring.directory)  # as if no root
    bus.publish("t", from_agent="alice")
    assert next(bus.read()).headers == {}


def test_import_signs_nothing(bus: Bus, alice: SigningKey, keyring: Keyring) -> None:
    """An importer is not the sender: else any line could be made alice's."""
    line = b'{"id":"m","ts":"2020-01-01T00:00:00.000Z","from":"alice","type":"t"}\n'
    assert bus.import_jsonl(io.BytesIO(line)).stored == 1
    assert next(bus.read()).headers == {}
