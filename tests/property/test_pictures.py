"""A picture stays a picture, whatever the names and texts of agents."""

import json
import re
from typing import Any
from xml.etree import ElementTree

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from ackbus import Bus, Message
from ackbus.export.pictures.timeline import Timeline, timeline_svg
from ackbus.export.pictures.traffic import Links, Traffic, flowchart, plain, sequence_diagram
from ackbus.schema.message.message import message_of

TITLE = "{http://www.w3.org/2000/svg}title"

#: What could end a statement, a label, an element or a line, next to any other text.
NASTY = st.sampled_from(
    [
        *(
            "end",
            "\n",
            "\r\n",
            "\u2028",
            "\x00",
            "\x1b[31m",
            ";",
            "#",
            "#59;",
            "%%",
            "%%{init: {}}%%",
        ),
        *("<br/>", "</text>", "<!--", "]]>", "&amp;", '"', "'", "`", "$$", "-->>", "]", "|", "\\n"),
        *("wrap:", "style a fill:#fff;", "p1->>p2: x", "note over p1: x"),
        *("\ufffe", "\u200d", "\u202e"),
    ]
)
TEXT = st.lists(NASTY | st.text(st.characters(exclude_categories=["Cs"]), max_size=8), max_size=6)
words = TEXT.map("".join)
names = words.filter(bool)

#: The fields of a message that are free: sender, recipient, type, payload, whether it is a reply.
parts = st.tuples(names, st.none() | names, words, words, st.booleans())

#: What a label may hold: no character that means something to Mermaid, but in codes and our break.
LABEL = r"(?:[^#;%$<>&\n]|#\d+;|<br/>)*"
NODE = r'(?:[^#;%$<>&:"`*\\{}|~\[\]\n]|#\d+;)*'


@pytest.fixture(scope="module")
def blobs(tmp_path_factory: pytest.TempPathFactory) -> Any:
    with Bus.init(tmp_path_factory.mktemp("pictures") / ".worker-state") as bus:
        yield bus.blobs


def message(seq: int, fields: tuple[str, str | None, str, str, bool], blobs: Any) -> Message:
    """A message as a row of the table, where a program with its own SQL can put any text."""
    sender, recipient, type, payload, is_reply = fields
    parent = "p" if is_reply else None
    payload = json.dumps(payload)
    row = (seq, f"m{seq}", seq * 40_000_000, sender, recipient, type, "c", parent, payload)
    return message_of((*row, None, 1, None), blobs)


@pytest.mark.slow
@given(fields=st.lists(parts, min_size=1, max_size=5))
@example(fields=[("end", "a", "style:#1;", "end; x", False), ("wrap: a", None, "", "", True)])
def test_any_text_stays_in_its_label(fields: list[Any], blobs: Any) -> None:
    """A label never breaks out of its line, and each message is one line."""
    found = [message(seq, each, blobs) for seq, each in enumerate(fields, 1)]
    traffic = Traffic.of(found, blobs, limit=200)
    lines = sequence_diagram(traffic).removesuffix("\n").split("\n")
    lanes = len(traffic.lanes)
    assert lines[0] == "sequenceDiagram"
    assert all(re.fullmatch(rf"    participant p\d+ as {NODE}", x) for x in lines[1 : lanes + 1])
    steps = lines[lanes + 1 :]
    arrows = [x for x in steps if re.fullmatch(rf"    p\d+-?->>p\d+: \d+ {LABEL}", x)]
    notes = [x for x in steps if re.fullmatch(r"    Note over p\d+(,p\d+)?: [\d-]+ UTC", x)]
    assert len(arrows) == len(fields)
    assert len(arrows) + len(notes) == len(steps)
    assert not re.search(r"\bend\b", "\n".join(steps), re.IGNORECASE)
    assert not any(re.search(r"style.*:\S*#.*;", line) for line in lines)
    for line in flowchart(Links.of(found, limit=60)).splitlines()[1:]:
        assert re.fullmatch(rf'    p\d+(\["{NODE}"\]|\(\["everybody"\]\)| -->\|"\d+"\| p\d+)', line)


@given(text=words)
def test_a_label_says_what_the_text_says(text: str, blobs: Any) -> None:
    """Read back as Mermaid reads it, it is the beginning of the text."""
    traffic = Traffic.of([message(1, ("a", "b", "t", text, False), blobs)], blobs, limit=1)
    label = sequence_diagram(traffic).splitlines()[-1].partition("<br/>")[2]
    read = re.sub(r"#(\d+);", lambda match: chr(int(match[1])), label)
    assert plain(text).startswith(read.removesuffix("…"))
    assert read.endswith("…") or read == plain(text)


@pytest.mark.slow
@given(fields=st.lists(parts, min_size=1, max_size=5))
@example(fields=[("\ufffe", "\x00", "\x1b", "]]>\x0b\x85", False)])
def test_any_text_gives_valid_xml(fields: list[Any], blobs: Any) -> None:
    found = [message(seq, each, blobs) for seq, each in enumerate(fields, 1)]
    traffic = Traffic.of(found, blobs, limit=200)
    title = plain(fields[0][3])
    svg = timeline_svg(Timeline.of(traffic), title)
    told = [element.text or "" for element in ElementTree.fromstring(svg).iter(TITLE)]
    # Of the agents too, whose names may look like that.
    stories = [text for text in told if re.match(r"#\d+ .*, .* → .*, [\d-]+T", text)]
    assert len(stories) >= len(fields)
    assert sum(link.count for link in Links.of(found, limit=60).links) == len(fields)


@given(text=words)
def test_plain_text_is_one_printable_line(text: str) -> None:
    """Its words are kept, in order."""
    shown = plain(text)
    assert shown.replace("\u200c", "").replace("\u200d", "").isprintable()
    assert "\n" not in shown
    if text.isprintable():
        assert shown == " ".join(text.split())
