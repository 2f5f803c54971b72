"""Searching by words: what is found, in which order, and the index that makes it quick."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from ackbus import Bus, Draft
from ackbus.bus.search import index as search_index
from ackbus.bus.search import index as search_rating
from ackbus.bus.search.search import Search
from ackbus.bus.search.text import MAX_TEXT_CHARS, Words, text_of
from ackbus.errors import InvalidInput
from ackbus.schema.queries import file_of

from ..programs import run_program_to_sigkill, running_program

INDEX = "search.db"


def publish(bus: Bus, *payloads: object, type: str = "note") -> None:
    bus.publish_many([Draft(type, each, from_agent="planner") for each in payloads])


def seqs(bus: Bus, *words: str, **filters: object) -> list[int]:
    return sorted(found.message.seq for found in bus.search(*words, **filters))


# What is found.


def test_all_words_must_be_there_in_any_case_and_order(bus: Bus) -> None:
    """Q-05: search by word."""
    publish(bus, "the disk is FULL", "disk", "full", "a full disk")
    assert seqs(bus, "disk", "full") == [1, 4]
    assert seqs(bus, "Disk") == [1, 2, 4]
    assert seqs(bus, "diskette") == []


def test_words_in_one_argument_are_a_phrase(bus: Bus) -> None:
    publish(bus, "disk full", "full disk", "disk is full")
    assert seqs(bus, "disk full") == [1]


def test_star_at_the_end_finds_beginnings(bus: Bus) -> None:
    publish(bus, "migrate", "migration of users", "immigrate")
    assert seqs(bus, "migrat*") == [1, 2]


def test_words_are_found_in_names_and_values_at_any_depth(bus: Bus) -> None:
    publish(bus, {"error": {"lines": ["first\nsecond", 4711]}}, None, True)
    for word in ("error", "lines", "first", "second", "4711"):
        assert seqs(bus, word) == [1]
    assert seqs(bus, "true") == []


def test_paths_and_identifiers_are_found_whole_and_by_part(bus: Bus) -> None:
    publish(bus, "see src/foo_bar.py:12")
    for words in ("src/foo_bar.py", "foo_bar", "bar", "py 12"):
        assert seqs(bus, words) == [1]


def test_accents_make_no_difference(bus: Bus) -> None:
    publish(bus, "Überprüfung fertig")
    assert seqs(bus, "uberprufung") == [1]


def test_large_payloads_are_searched_up_to_their_limit(bus: Bus) -> None:
    """Blobs' text too, bounded."""
    publish(bus, "needle " + "hay " * 2000, "x" * MAX_TEXT_CHARS + " needle")
    assert bus.stats().messages == 2
    assert seqs(bus, "needle") == [1]


def test_blob_of_plain_text_is_searched(bus: Bus) -> None:
    ref = bus.blobs.put(b"a log with a needle\n" * 1000)
    bus.publish("log", payload_ref=ref, from_agent="builder")
    assert seqs(bus, "needle") == [1]


def test_blob_that_was_missing_is_searched_when_it_is_back(
    bus: Bus, caplog: pytest.LogCaptureFixture
) -> None:
    bus.publish("n", "needle " * 1000, from_agent="x")
    publish(bus, "needle")
    ref = bus.get(1).payload_ref  # type: ignore[union-attr]
    blob = Path(bus.layout.blobs, str(ref))
    blob.rename(f"{blob}.away")
    assert seqs(bus, "needle") == [2]
    assert "1 messages can't be searched" in caplog.text
    Path(f"{blob}.away").rename(blob)
    assert seqs(bus, "needle") == [1, 2]


def test_binary_blob_has_no_text(bus: Bus) -> None:
    bus.publish("n", payload_ref=bus.blobs.put(b"C\0needle" * 100), from_agent="x")
    assert seqs(bus, "needle") == []


def test_filter_finds_what_is_older_than_the_newest_thousand(bus: Bus) -> None:
    """Words tell worker and worker-1 apart only on the message itself."""
    bus.publish("build.failed", "timeout", from_agent="worker")
    bus.publish_many(Draft("note", "timeout", from_agent="worker-1") for _ in range(1100))
    assert seqs(bus, "timeout", agent="worker") == [1]
    assert seqs(bus, "timeout", type="*.failed") == [1]
    assert len(bus.search("timeout", limit=1101)) == 1101


def test_text_that_is_no_unicode_is_refused(bus: Bus) -> None:
    for words, filters in ((("a\udcff",), {}), (("a",), {"conversation": "\udcff"})):
        with pytest.raises(InvalidInput, match="not valid Unicode"):
            bus.search(*words, **filters)


def test_payload_that_is_no_json_is_searched_as_it_is_stored(bus: Bus) -> None:
    """Another program may store any text."""
    insert = (
        "INSERT INTO messages (id, ts_ms, from_agent, type, payload) VALUES (?, 1, 'x', 'n', ?)"
    )
    file_of(bus).change(insert, ("a", "no {json"))
    assert seqs(bus, "json") == [1]


@pytest.mark.parametrize(
    "word", ['"', "AND", "NOT x", "text : x", "(", "*", "-x", "^x", "NEAR(a b)", "{", "a\0b"]
)
def test_nothing_in_a_word_is_an_operator(bus: Bus, word: str) -> None:
    publish(bus, f"before {word} after".replace("\0", " "))
    if any(map(str.isalnum, word)):
        assert seqs(bus, word) == [1]
    else:
        with pytest.raises(InvalidInput, match="at least one word"):
            bus.search(word)


def test_filters_are_exact_where_words_are_not(bus: Bus) -> None:
    """Q-05: with filters."""
    for type in ("review.request", "review.request.urgent", "pre.review.request"):
        publish(bus, "same", type=type)
    bus.publish("note", "same", from_agent="agent-1-b", correlation_id="c-1-b")
    bus.publish("note", "same", from_agent="agent-2")
    bus.publish("note", "same", from_agent="agent-1", to_agent="agent-2", correlation_id="c-1")
    assert seqs(bus, "same", type="review.request") == [1]
    assert seqs(bus, "same", type="review.>") == [1, 2]
    assert seqs(bus, "same", type="*.review.*") == [3]
    assert seqs(bus, "same", agent="agent-1") == [6]
    assert seqs(bus, "same", agent="agent-2") == [5, 6]
    assert seqs(bus, "same", conversation="c-1") == [6]
    assert seqs(bus, "same", conversation="none") == []


def test_since_leaves_out_what_is_older(bus_dir: Path) -> None:
    now = 1_000
    with Bus.open(bus_dir, clock=lambda: now) as bus:
        publish(bus, *["same"] * 3000)
        now = 2_000
        publish(bus, "same")
        assert seqs(bus, "same", since_ms=2_000) == [3001]
        assert seqs(bus, "same", since_ms=2_001) == []


# Order and snippets.


def test_what_fits_better_comes_first_and_of_equals_the_newest(bus: Bus) -> None:
    publish(bus, "disk " + "word " * 100, "disk disk disk", "disk " + "word " * 100)
    assert [found.message.seq for found in bus.search("disk")] == [2, 3, 1]


@pytest.mark.parametrize("sample", [5, 1000])
def test_rare_word_counts_more_than_a_common_one(
    bus: Bus, monkeypatch: pytest.MonkeyPatch, sample: int
) -> None:
    monkeypatch.setattr(search_rating, "_SAMPLE", sample)
    publish(bus, *["the plan"] * 50, "the migration migration", "the the migration")
    for words in (("the", "migration"), ("migration", "the")):
        assert [found.message.seq for found in bus.search(*words)] == [51, 52]


def test_filters_change_nothing_in_the_order(bus: Bus) -> None:
    for n in range(40):
        text = "disk " * (n % 7 + 1) + "word " * (n % 5)
        bus.publish("note", text, from_agent="ann" if n % 3 else "bob", correlation_id="c")
    order = [found.message.seq for found in bus.search("disk", limit=40)]
    assert order != sorted(order, reverse=True)
    anns = [seq for seq in order if (seq - 1) % 3]
    options = {"agent": "ann", "type": "note", "conversation": "c", "limit": 40}
    assert [found.message.seq for found in bus.search("disk", **options)] == anns


def test_limit_is_a_limit(bus: Bus) -> None:
    publish(bus, *["same"] * 30)
    assert len(bus.search("same")) == 20
    assert len(bus.search("same", limit=25)) == 25
    with pytest.raises(InvalidInput, match="at least 1"):
        bus.search("same", limit=0)


def test_snippet_shows_the_words_with_their_surroundings(bus: Bus) -> None:
    publish(bus, "a " * 200 + "the\ndisk_full error" + " b" * 200)
    (found,) = bus.search("disk full", "err*")
    assert (found.snippet[0], found.snippet[-1]) == ("…", "…")
    assert [found.snippet[start:end] for start, end in found.marks] == ["disk_full", "error"]
    assert "the disk_full error" in found.snippet


def test_snippet_without_the_word_in_this_spelling_is_the_beginning() -> None:
    assert Words.of(["uber"]).snippet("über alles") == ("über alles", [])


def test_text_of_a_deeply_nested_payload_needs_no_deep_stack() -> None:
    value: object = "deep"
    for _ in range(100_000):
        value = [value]
    assert text_of(value) == "deep"


# The index.


def test_publishing_does_nothing_for_the_index(bus: Bus) -> None:
    publish(bus, "one")
    assert not Path(bus.layout.search).exists()


def test_each_search_indexes_only_what_is_new(bus: Bus, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search_index, "PAGE_MESSAGES", 2)
    search = Search(bus)
    told: list[int] = []
    publish(bus, *["same"] * 5)
    assert search.behind() == 5
    assert len(search.find(["same"], on_progress=told.append)) == 5
    publish(bus, "same")
    assert (search.behind(), len(search.find(["same"], on_progress=told.append))) == (1, 6)
    assert told == [2, 4, 5, 6]


@pytest.mark.slow
def test_processes_that_search_at_once_index_each_message_once(bus: Bus) -> None:
    publish(bus, *["same"] * 5000)
    program = (
        "import sys; from ackbus import Bus;"
        "print(len(Bus.open(sys.argv[1]).search('same', limit=9999)))"
    )
    command = [sys.executable, "-c", program, bus.layout.directory]
    running = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(4)]
    assert [each.communicate()[0] for each in running] == ["5000\n"] * 4


def damaged(bus: Bus) -> None:
    Path(bus.layout.search).write_bytes(b"no database" * 1000)


def torn(bus: Bus) -> None:
    os.truncate(bus.layout.search, 5000)


def removed(bus: Bus) -> None:
    Path(bus.layout.search).unlink()


@pytest.mark.parametrize("harm", [damaged, torn, removed])
def test_index_that_is_harmed_is_built_again(bus: Bus, harm: Callable[[Bus], None]) -> None:
    publish(bus, *["same"] * 3)
    assert seqs(bus, "same") == [1, 2, 3]
    harm(bus)
    for ending in ("-wal", "-shm"):
        Path(bus.layout.search + ending).unlink(missing_ok=True)
    assert seqs(bus, "same") == [1, 2, 3]


SEARCHES = """
import os, signal, sys
from ackbus import Bus
from ackbus.bus.search.search import Search
from ackbus.bus.search import index as search_index

search_index.PAGE_MESSAGES = 2

def indexed(seq):
    print(seq, flush=True)
    if not sys.stdin.readline():
        os.kill(os.getpid(), signal.SIGKILL)

with Bus.open(sys.argv[1]) as bus:
    print("found", len(Search(bus).find(["same"], on_progress=indexed)))
"""


def test_index_that_another_process_makes_anew_hides_nothing(bus: Bus) -> None:
    """Pitfall 1: what is open elsewhere is not unlinked. The other one died on the way, too."""
    publish(bus, *["same"] * 10)
    with running_program(SEARCHES, bus.layout.directory) as first:
        assert first.stdout is not None
        assert first.stdout.readline() == "2\n"
        with Path(bus.layout.search).open("r+b") as file:
            file.write(b"no database" * 8)  # the first one has read this already
        with running_program(SEARCHES, bus.layout.directory) as second:
            out, _ = second.communicate("\n")
            assert out.split() == ["2", "4"]  # of the new index
        inode = os.stat(bus.layout.search).st_ino
        out, _ = first.communicate("\n" * 10)
        assert out.split()[-2:] == ["found", "10"]
    assert seqs(bus, "same") == list(range(1, 11))
    assert os.stat(bus.layout.search).st_ino == inode


def test_index_that_is_deleted_leaves_nothing_to_the_next(bus: Bus) -> None:
    """PITFALLS 1: the write-ahead log that a killed process left was replayed into the new file."""
    publish(bus, *["same"] * 500)
    assert len(seqs(bus, "same", limit=1000)) == 500
    publish(bus, *["same", "else"] * 5)
    with running_program(SEARCHES, bus.layout.directory) as killed:
        assert killed.communicate("")[0] == "502\n"
    assert os.path.getsize(f"{bus.layout.search}-wal") > 0
    os.unlink(bus.layout.search)
    assert len(seqs(bus, "same", limit=1000)) == 505
    assert seqs(bus, "else") == [502, 504, 506, 508, 510]


def test_index_that_is_deleted_while_one_searches_hides_nothing(bus: Bus) -> None:
    publish(bus, *["same"] * 3)
    found = Search(bus).find(["same"], on_progress=lambda _: os.unlink(bus.layout.search))
    assert len(found) == 3
    assert seqs(bus, "same") == [1, 2, 3]


KILLED_MAKING = """
import os, signal, sys
from ackbus import Bus

def die(event, args):
    if event in ("os.link", "os.rename"):
        os.kill(os.getpid(), signal.SIGKILL)

with Bus.open(sys.argv[1]) as bus:
    sys.addaudithook(die)
    bus.search("same")
"""


def test_process_killed_while_it_makes_the_index_leaves_no_litter(bus: Bus) -> None:
    publish(bus, "same")
    for _ in range(2):
        run_program_to_sigkill(KILLED_MAKING, bus.layout.directory)
        assert not Path(bus.layout.search).exists()
    assert seqs(bus, "same") == [1]
    left = sorted(path.name for path in Path(bus.layout.directory).glob("search*"))
    assert left == ["search.db", "search.lock"]


@pytest.mark.parametrize("count", [1, 3])
def test_index_of_another_log_is_built_again(bus: Bus, tmp_path: Path, count: int) -> None:
    """A bus that was put back from a copy has other messages, or fewer."""
    publish(bus, "same", "same")
    assert seqs(bus, "same") == [1, 2]
    with Bus.init(tmp_path / "other") as other:
        publish(other, *["new"] * count)
        Path(bus.layout.search).rename(other.layout.search)
        assert seqs(other, "same") == []
        assert len(seqs(other, "new")) == count


def test_looking_how_far_it_is_changes_nothing(bus: Bus) -> None:
    publish(bus, "same")
    assert Search(bus).behind() == 1
    assert not Path(bus.layout.search).exists()
    bus.search("same")
    Path(bus.layout.search).write_bytes(b"no database" * 1000)
    assert Search(bus).behind() == 1
    assert Path(bus.layout.search).read_bytes() == b"no database" * 1000


def test_index_is_for_its_owner_alone_and_out_of_git(bus: Bus) -> None:
    gitignore = Path(bus.layout.directory, ".gitignore")
    gitignore.write_text("bus.db\n")  # as an older version wrote it
    publish(bus, "same")
    bus.search("same")
    assert os.stat(bus.layout.search).st_mode & 0o777 == 0o600
    assert "search.db*" in gitignore.read_text().splitlines()
