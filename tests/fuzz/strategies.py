"""The sources of cases: hostile text and JSON, and valid samples with something wrong."""

import json
from pathlib import Path
from typing import Any

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

#: The real traffic, where it lies beside the clone.
REAL = Path(__file__).parents[3] / "shared" / "data" / "h5i-messages.jsonl"
_CORPUS = Path(__file__).parent / "corpus"

#: Pieces that parsers trip over.
TOKENS = [
    *(b"", b"\0", b"\xff", b"\xed\xa0\x80", b"\xef\xbb\xbf", b"\n", b"\r", b"\r\n", b" ", b"\t"),
    *(b"\x1b[31m", b"\xe2\x80\xa8", b"\xe2\x80\xae", b"\xf0\x9f\x98\x80", b"\\ud800", b"\\u0000"),
    *(b'"', b"\\", b",", b":", b"{", b"}", b"[", b"]", b"{}", b"[]", b"null", b"true", b'""'),
    *(b"0", b"-0", b"-1", b"1e999", b"1e-999", b"9" * 40, b"18446744073709551616", b"NaN"),
    *(b"9223372036854775808", b"0.1", b"1.0", b"9" * 5000, b"-Infinity"),
    *(b"[" * 300, b'{"a":' * 300, b"[" * 2000, b"]" * 300),
    *(b"<<<<<<< ours\n", b"=======\n", b">>>>>>> theirs\n", b"||||||| base\n"),
    *(b"../../x", b"/", b"~", b"%s", b"{0}", b"$(id)", b"'; DROP TABLE messages; --"),
    *(b'"id":', b'"ts":', b'"seq":', b'"payload":', b'"headers":', b'"type":', b'"from":'),
    *(b"*", b">", b"?", b"[", b"[!-]", b"**", b"a" * 300, "é".encode() * 200, b"x" * 5000),
]


def samples(*names: str) -> list[bytes]:
    """The contents of files of the corpus."""
    return [(_CORPUS / name).read_bytes() for name in names]


def real_lines(count: int = 40) -> list[bytes]:
    """Lines of real traffic; none where it is not there."""
    return REAL.read_bytes().splitlines(keepends=True)[:count] if REAL.exists() else []


any_text = (
    st.text(max_size=40)
    | st.text("ab.*>? -=@/\\[]{}\"'\0\x1b\n\ud800é\u200b\u202e٣", max_size=12)
    | st.sampled_from(TOKENS).map(lambda token: token.decode("utf-8", "surrogateescape"))
)

_scalars = (
    st.none()
    | st.booleans()
    | st.integers(-(2**66), 2**66)
    | st.sampled_from([2**63 - 1, 2**63, 2**64 - 1, 2**64, -(2**63), -(2**63) - 1, 10**30])
    | st.floats()
    | any_text
)

any_json = st.recursive(
    _scalars,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(any_text, inner, max_size=4),
    max_leaves=8,
) | st.builds(lambda depth, is_list: _nested(depth, is_list), st.integers(240, 260), st.booleans())


def _nested(depth: int, is_list: bool) -> object:
    value: object = None
    for _ in range(depth):
        value = [value] if is_list else {"a": value}
    return value


@st.composite
def mutated(draw: Any, valid: list[bytes], changes: int = 4) -> bytes:
    """A valid sample with a few changes, in the manner of whoever writes files badly."""
    data: bytes = draw(st.sampled_from(valid))
    for _ in range(draw(st.integers(0, changes))):
        at = draw(st.integers(0, len(data)))
        end = min(len(data), at + draw(st.integers(0, 12)))
        match draw(st.integers(0, 5)):
            case 0:
                data = data[:at] + draw(st.sampled_from(TOKENS)) + data[end:]
            case 1:
                data = data[:at] + draw(st.binary(max_size=4)) + data[end:]
            case 2:  # torn
                data = data[:at]
            case 3:
                data = data[:at] + data[at:end] * draw(st.integers(2, 50)) + data[end:]
            case 4:  # the end of another
                other = draw(st.sampled_from(valid))
                data = data[:at] + other[draw(st.integers(0, len(other))) :]
            case _:  # a line twice, or in another place
                lines = data.splitlines(keepends=True) or [b""]
                line = draw(st.sampled_from(lines))
                lines.insert(draw(st.integers(0, len(lines))), line)
                data = b"".join(lines)
    return data


def _text_of(record: object, is_ascii: bool) -> bytes:
    return json.dumps(record, ensure_ascii=is_ascii).encode("utf-8", "surrogatepass")


def json_bytes(values: SearchStrategy[object]) -> SearchStrategy[bytes]:
    """Values as a careless program writes them: NaN, lone surrogates, integers of any size."""
    return st.builds(_text_of, values, st.booleans())


ids = st.sampled_from(["m-1", "m-2", "0197c0de-0000-7000-8000-000000000001", "1"]) | any_text
agents = st.sampled_from(["alice", "bob", "worker-1", "Zoë"]) | any_text
types = st.sampled_from(["note", "task.assign", "review.request", "task.done"]) | any_text
times = (
    st.sampled_from(["2026-01-10T14:00:00.000Z", "2026-01-10", "1768053600000", "0", "10m", "1.5h"])
    | st.text("0123456789-+:TZ.,Wmshd eE", max_size=30)
    | any_text
)
refs = st.sampled_from(["sha256-" + "0" * 64, "sha256-../../x", "../bus.db"]) | any_text
priorities = st.sampled_from(["normal", "background", 0, 1, 2, 3, -1, True, 1.0]) | any_json
headers = st.dictionaries(
    st.sampled_from(["meta", "available_at_ms", "dedupe_key", "dedupe_window_ms", "trace"])
    | any_text,
    any_json,
    max_size=3,
)


def _some(**fields: SearchStrategy[Any]) -> SearchStrategy[dict[str, Any]]:
    """Records with any of these fields, one in eight of which has a value of any kind."""
    odd = st.integers(0, 7)
    return st.fixed_dictionaries(
        {},
        optional={
            name: odd.flatmap(lambda n, values=values: any_json if n == 0 else values)
            for name, values in fields.items()
        },
    )


#: Lines of `bus.jsonl`, and of publish --jsonl.
records = _some(
    **{"seq": st.integers(-1, 2**64), "id": ids, "ts": times, "from": agents, "to": agents},
    type=types,
    correlation_id=ids,
    in_reply_to=ids,
    priority=priorities,
    headers=headers,
    payload=any_json,
    payload_ref=refs,
    payload_error=st.just("decode_failed") | any_text,
    body=any_text,
)
lines = st.lists(
    json_bytes(records) | st.sampled_from([b"", b" ", b"{", b"<<<<<<< ours", b"[]", b"{}"]),
    max_size=5,
).map(b"\n".join)
