"""Files of YAML: types are left to the use of a value, and all faults are told at once."""

import pytest

from ackbus.automation.config.yaml_tree import parse, typed


def read(text: str) -> object:
    tree, faults = parse(text, "f")
    assert faults == []
    return typed(tree)


def refused(text: str) -> list[str]:
    return [str(fault) for fault in parse(text, "f")[1]]


def test_words_of_older_yaml_stay_text() -> None:
    assert read("on: on\nyes: no\nwindow: 22:00\n") == {"on": "on", "yes": "no", "window": "22:00"}


@pytest.mark.parametrize(
    ("text", "value"),
    [
        *(("0x1F", 31), ("0o17", 15), ("0755", 755), ("-1.5e3", -1500.0), ("1.10", 1.1)),
        *(("true", True), ("~", None), ("", None), ("'5'", "5"), ('"true"', "true")),
        *((".inf", ".inf"), ("123456789012345678901", "123456789012345678901"), (".", ".")),
    ],
)
def test_values_have_the_types_of_json(text: str, value: object) -> None:
    assert read(f"a: {text}\n") == {"a": value}


def test_a_number_keeps_its_text_where_text_is_wanted() -> None:
    tree, _ = parse("version: 1.10\n", "f")
    assert tree["version"] == "1.10"
    assert typed(tree) == {"version": 1.1}


def test_every_repeated_key_is_refused_with_both_lines() -> None:
    assert refused("a: 1\nb: {c: 1, c: 2}\na: 2\n") == [
        "f:2: b.c: 'c' stands twice, first at line 2",
        "f:3: a: 'a' stands twice, first at line 1",
    ]


def test_aliases_and_merge_keys_are_expanded() -> None:
    text = "base: &b {k: 1, l: 2}\none: {<<: *b, k: 3}\nmore: {<<: [*b, {m: 4}]}\nlist: [*b]\n"
    assert read(text) == {
        "base": {"k": 1, "l": 2},
        "one": {"k": 3, "l": 2},
        "more": {"k": 1, "l": 2, "m": 4},
        "list": [{"k": 1, "l": 2}],
    }


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("a: [1\n", "f:2: this is no YAML: expected ',' or ']'"),
        ("a: b: c\n", "f:1: this is no YAML: mapping values"),
        ("a:\n\tb: 1\n", "f:2: this is no YAML: found character"),
        ("- a\n", "f:1: write a map of settings"),
        ("a: 1\n---\nb: 1\n", "f:3: a second document begins here"),
        ("a: !python/object 1\n", "f:1: a: the tag !python/object is not known"),
        ("a: *nobody\n", "f:1: a: *nobody has no &nobody before it"),
        ("a: &x [*x]\n", "f:1: a[0]: *x stands inside of itself"),
        ("? [a]\n: 1\n", "f:1: a key must be a word"),
        ("a: {<<: 5}\n", "f:1: a.<<: << takes the entries of a map"),
        ("a: \x00\n", "f: this is no YAML: unacceptable character"),
        ("[" * 5000, "f: this is no YAML: too deeply nested"),
    ],
)
def test_wrong_yaml_is_refused_at_its_line(text: str, told: str) -> None:
    assert refused(text)[0].startswith(told)


def test_aliases_that_multiply_are_refused_and_not_expanded() -> None:
    lines = ["a: &a [x,x,x,x,x,x,x,x,x,x]"]
    for name, before in zip("bcdefghi", "abcdefgh", strict=True):
        lines.append(f"{name}: &{name} [{','.join([f'*{before}'] * 10)}]")
    assert "more than 500000 values" in refused("\n".join(lines))[0]


def test_every_value_knows_its_line() -> None:
    tree, _ = parse("a:\n  - b: 1\n    c: 2\n  - d: 3\n", "f")
    assert tree["a"].at == [("f", 2), ("f", 4)]  # type: ignore[union-attr]
    assert tree["a"][0].at == {"b": ("f", 2), "c": ("f", 3)}  # type: ignore[index,union-attr]
