"""Other programs sign as the document says, and are believed, whatever they send."""

import json
import runpy
import struct
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ackbus import Bus
from ackbus.bus.signing import Keyring
from ackbus.bus.verification import Verification
from ackbus.schema.message.canonical_json import encode
from ackbus.schema.queries import file_of

ROOT = Path(__file__).parents[2]
RECORD: dict[str, Any] = json.loads(
    (Path(__file__).parent / "signature_vectors.json").read_text("utf-8")
)
SECRET = bytes.fromhex(RECORD["secret"])
VECTORS: list[dict[str, Any]] = RECORD["vectors"]


def signer_of_the_example() -> SimpleNamespace:
    """The program that shows others how to sign by docs/protocol.md: not a line of it is ours."""
    return SimpleNamespace(**runpy.run_path(str(ROOT / "examples/plain-sql/sign.py")))


THEIRS = signer_of_the_example()


def row_of(vector: dict[str, Any]) -> dict[str, Any]:
    """The row of a message in the table, without its signature."""
    message: dict[str, Any] = vector["message"]
    return message | {
        "headers": json.dumps(message["headers"]),
        "payload": vector["payload_as_sent"],
        "payload_ref": None,
    }


def store(bus: Bus, row: dict[str, Any], signature: str) -> None:
    """Store a message as a program with SQL of its own does."""
    headers = json.loads(row["headers"]) | {"signature": signature}
    values = row | {"headers": json.dumps(headers)}
    places = ", ".join(f":{name}" for name in values)
    with bus.transaction():
        file_of(bus).rows(
            f"INSERT INTO messages ({', '.join(values)}) VALUES ({places})",
            values,  # type: ignore[arg-type]
        )


@pytest.fixture
def problems(bus: Bus, tmp_path: Path) -> Callable[[], list[str]]:
    """Verifies the bus with the key of the vectors."""
    keys = tmp_path / "their-keys"
    keys.mkdir(mode=0o700)
    key_id = VECTORS[0]["signature"].split(".")[1]
    known = {"id": key_id, "created_at_ms": 0, "secret": SECRET.hex()}
    (keys / "alice.key").touch(mode=0o600)
    (keys / "alice.key").write_text(json.dumps({"agent": "alice", "keys": [known]}))

    def kinds() -> list[str]:
        walk = Verification(bus, keyring=Keyring(str(keys)), chain=False, strict=True)
        return [problem.kind for problem in walk.problems()]

    return kinds


@pytest.mark.parametrize("vector", VECTORS, ids=lambda vector: vector["what"])
def test_the_document_signs_as_the_vectors_say(vector: dict[str, Any]) -> None:
    row = row_of(vector)
    assert THEIRS.form(row).decode() == vector["form"]
    assert THEIRS.sign(row, SECRET) == vector["signature"]
    if row["payload"] is not None:
        assert THEIRS.written(json.loads(row["payload"])) == vector["payload_as_signed"]


@pytest.mark.parametrize("vector", VECTORS, ids=lambda vector: vector["what"])
def test_what_is_signed_as_the_document_says_is_believed(
    vector: dict[str, Any], bus: Bus, problems: Callable[[], list[str]]
) -> None:
    row = row_of(vector)
    store(bus, row, vector["signature"])
    assert problems() == []
    store(bus, row | {"id": "another"}, vector["signature"])
    assert problems() == ["altered"]


@pytest.mark.parametrize("in_headers", [False, True])
def test_signatures_of_older_releases_stay_right(
    in_headers: bool, bus: Bus, problems: Callable[[], list[str]]
) -> None:
    """They have 1e16 for 1e+16; a plus in a text is part of it."""
    row = row_of(VECTORS[4 if in_headers else 0])
    if not in_headers:
        row["payload"] = '{"number":1e16,"text":"1e+16 \\\\\\" e+"}'
    written = THEIRS.written
    older = signer_of_the_example()
    older.form.__globals__["canonical"] = lambda value: (
        written(value).replace("1e+16,", "1e16,").replace("1e+16}", "1e16}").encode()
    )
    signature = older.sign(row, SECRET)
    assert signature != THEIRS.sign(row, SECRET)
    store(bus, row, signature)
    assert problems() == []


@given(st.integers(0, 2**64 - 1) | st.floats(1e-8, 1e23).map(lambda x: struct.pack(">d", x)))
def test_the_document_writes_every_fraction_as_we_do(bits: int | bytes) -> None:
    raw = bits if isinstance(bits, bytes) else bits.to_bytes(8)
    (value,) = struct.unpack(">d", raw)
    if value - value == 0:  # neither infinite nor NaN
        assert THEIRS.number(value) == encode(value).decode()


@given(st.text() | st.dictionaries(st.text(), st.integers(-(2**63), 2**64 - 1)))
def test_the_document_writes_every_text_and_integer_as_we_do(value: object) -> None:
    assert THEIRS.canonical(value) == encode(value)
