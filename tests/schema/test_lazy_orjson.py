"""Until orjson is loaded, plain JSON is read and written without it, and alike."""

import subprocess
import sys

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ackbus.schema.message import lazy_orjson

from ..sizes import size

#: Characters, numbers and words at which writers and readers of JSON differ, or might.
_TEXTS = st.text(
    st.sampled_from('ab"\\/\n\t\x00\x1b\x7f\xe9\u2028\ud800\U0001f600{}[]:, '), max_size=8
)
_NUMBERS = st.one_of(
    st.integers(),
    st.floats(),
    st.sampled_from([0, -0.0, 10**18, 10**18 - 1, 2**63, 2**64, 1e-3, 9e-4, 1e15, 1e16, 5e-324]),
)
_VALUES = st.recursive(
    st.one_of(_TEXTS, _NUMBERS, st.none(), st.booleans()),
    lambda inner: st.one_of(
        st.lists(inner, max_size=4), st.dictionaries(_TEXTS, inner, max_size=4)
    ),
    max_leaves=12,
)
_PIECES = [
    "",
    "0",
    "-",
    "-0",
    ".",
    "e9",
    "1e999",
    '"',
    "\\u0041",
    "\\ud800",
    "\\/",
    "\n",
    "\xa0",
    "\x0b",
]
_PIECES += ["\ufeff", "\ud800", "[", "]", "{", "}", ",", ":", "NaN", "-Infinity", "null", "9" * 19]


def _written(value: object, is_sorted: bool) -> bytes | None:
    """Return what is written without orjson; None where that is left to it."""
    try:
        return lazy_orjson._text_of(value, is_sorted, lazy_orjson._LEVELS).encode()
    except ValueError:
        return None


def _same_bytes(value: object) -> None:
    for option in (None, orjson.OPT_SORT_KEYS):
        written = _written(value, option is not None)
        assert written is None or written == orjson.dumps(value, option=option)


def _same_value(text: str) -> None:
    try:
        value = lazy_orjson._value_of(text)
    except lazy_orjson._NOT_PLAIN:
        return
    assert repr(value) == repr(orjson.loads(text))


def test_each_character_is_written_as_orjson_writes_it() -> None:
    every = [chr(code) for code in range(sys.maxunicode + 1)]
    whole = "".join(char for char in every if not "\ud800" <= char <= "\udfff")
    assert _written(whole, False) == orjson.dumps(whole)
    assert all(_written(char, False) is None for char in every[0xD800:0xE000])


@settings(max_examples=size(sample=200, whole=20_000), deadline=None)
@given(value=_VALUES)
def test_a_value_is_written_as_orjson_writes_it_or_left_to_it(value: object) -> None:
    _same_bytes(value)


@settings(max_examples=size(sample=200, whole=20_000), deadline=None)
@given(value=_VALUES, data=st.data())
def test_a_text_is_read_as_orjson_reads_it_or_left_to_it(
    value: object, data: st.DataObject
) -> None:
    """Texts that are JSON, and such with a piece in a place where it may not stand."""
    try:
        text = orjson.dumps(value).decode()
    except orjson.JSONEncodeError:
        return
    _same_value(text)
    at = data.draw(st.integers(0, len(text)))
    piece = data.draw(st.sampled_from(_PIECES))
    _same_value(text[:at] + piece + text[at + data.draw(st.integers(0, 1)) :])


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("a\nb", '"a\\nb"'),
        ({"b": [1, None, True, {}], "a": 1.5}, '{"b":[1,null,true,{}],"a":1.5}'),
        ([], "[]"),
    ],
)
def test_what_messages_most_often_hold_is_plain(value: object, text: str) -> None:
    assert _written(value, False) == text.encode()
    assert lazy_orjson._value_of(f" {text}\n") == value


def test_the_option_is_that_of_orjson() -> None:
    assert lazy_orjson.OPT_SORT_KEYS == orjson.OPT_SORT_KEYS


def test_orjson_is_loaded_at_its_first_use_and_stands_in_the_module_from_then_on() -> None:
    program = """\
import sys
from ackbus.schema.message import lazy_orjson
assert lazy_orjson.loads(lazy_orjson.dumps({"a": "b"})) == {"a": "b"}
print("orjson" in sys.modules)
assert lazy_orjson.loads("1e2") == 100
import orjson
print(all(getattr(lazy_orjson, name) is getattr(orjson, name) for name in orjson.__all__))
print("__getattr__" in vars(lazy_orjson))
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == ["False", "True", "False"]


def test_what_is_no_json_is_left_to_orjson_in_a_process_that_has_no_json_loaded() -> None:
    texts = ["", "{", '{"a"', '{"a":', "[1,", '"', '"\\', '"\\x"', "tru", "-", "1 2", "nul"]
    program = """\
import sys
from ackbus.schema.message import lazy_orjson
assert "json" not in sys.modules
for text in sys.argv[1:]:
    try:
        lazy_orjson._value_of(text)
    except lazy_orjson._NOT_PLAIN:
        pass
    else:
        print("read:", text)
"""
    command = [sys.executable, "-c", program, *texts]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout == ""
