"""The importer: by id, once, with a word about every line that it leaves out."""

import io
import json
from pathlib import Path

import pytest

from ackbus import Bus, Draft, Exporter, FieldMap, Inbox
from ackbus.errors import InvalidInput
from ackbus.export.jsonl.importer import BATCH_BYTES
from ackbus.export.jsonl.parts import ConflictMarkers
from ackbus.model import ImportReport
from ackbus.schema.queries import file_of

from ..conftest import ROOT, RunBus
from ..programs import raw_sql

pytestmark = pytest.mark.filterwarnings("ignore::ackbus.errors.UnknownRecipientWarning")

#: Real coordination traffic; it lies beside the project, not in it.
H5I = ROOT.parent / "shared" / "data" / "h5i-messages.jsonl"
H5I_MAP = (
    "type=kind|NOTE,payload=body,in_reply_to=reply_to,correlation_id=thread_id",
    "headers.priority=priority,headers.*=*",
)


def lines(*records: object) -> io.BytesIO:
    return io.BytesIO(b"".join(json.dumps(record).encode() + b"\n" for record in records))


def record(id: str, **more: object) -> dict[str, object]:
    return {"id": id, "from": "a", "type": "note", **more}


def test_an_export_imports_to_the_same_log(bus: Bus, tmp_path: Path) -> None:
    """X-37, pitfall 18: bus.jsonl and the blobs carry everything; twice changes nothing."""
    bus.publish_many(
        [Draft("note", {"n": n, "text": "x" * (n * 40)}, from_agent="a") for n in range(300)]
    )
    bus.publish("re", None, from_agent="b", to_agent="a", in_reply_to=bus.get(1).id, priority=2)  # type: ignore[union-attr]
    Exporter(bus).export_once()
    with Bus.init(tmp_path / "other") as other:
        for ref in bus.blobs:
            other.blobs.put(bus.blobs.read(ref))
        with open(bus.layout.jsonl, "rb") as stream:
            report = other.import_jsonl(stream)
        assert (report.lines, report.stored, report.skipped) == (301, 301, 0)
        assert [m.to_line() for m in other.read()] == [m.to_line() for m in bus.read()]
        with open(bus.layout.jsonl, "rb") as stream:
            again = other.import_jsonl(stream)
        assert (again.stored, again.duplicates) == (0, 301)
        assert other.log.newest_seq() == 301


def test_bad_lines_are_skipped_with_their_reason(bus: Bus) -> None:
    """Every line around them is stored, in order, and the log holds nothing half."""
    bus.publish("note", "first", from_agent="a", id="taken")
    stream = io.BytesIO(
        b'{"id":"1","from":"a","type":"note","payload":1}\n'
        b"\n"
        b"not json\n"
        b"[1,2]\n"
        b'{"from":"a","type":"note"}\n'
        b'{"id":"2","from":"a","type":"no spaces"}\n'
        b'{"id":"3","from":"a","type":"note","ts":"yesterday"}\n'
        b'{"id":"taken","from":"a","type":"note","payload":"second"}\n'
        b'{"id":"4","from":"a","type":"note","payload_ref":"sha256-' + b"0" * 64 + b'"}\n'
        b'{"id":"5","from":"a","type":"note","payload_error":"decode_failed","payload":"{}"}\n'
        b'{"id":"5","from":"a","type":"note","payload_error":"decode_failed"}\n'
        b'{"id":"6","from":"a","type":"note","payload":"\xff"}\n'
        b'{"id":"7","from":"a","type":"note","in_reply_to":"elsewhere","priority":"interactive"}'
    )
    report = bus.import_jsonl(stream)
    assert (report.lines, report.stored, report.duplicates, report.skipped) == (12, 2, 0, 10)
    assert [number for number, _ in report.reasons] == [3, 4, 5, 6, 7, 8, 9, 10, 11, 12]
    reasons = dict(report.reasons)
    assert "not valid JSON" in reasons[3]
    assert "'id'" in reasons[5]
    assert "'taken' is taken by seq 1" in reasons[8]
    assert "no blob" in reasons[9]
    assert [message.id for message in bus.read()] == ["taken", "1", "7"]


@pytest.mark.parametrize("name", ["payload", "id", "ts", "priority", "headers"])
@pytest.mark.parametrize("leaf", [b"1", b"1234567890123456789"])
def test_a_line_that_is_nested_too_deep_is_skipped(name: str, leaf: bytes, bus: Bus) -> None:
    """Promise 11: whatever field it is in, it stops no import."""
    deep = b"[" * 1010 + leaf + b"]" * 1010
    fields = {"id": b'"deep"', "from": b'"a"', "type": b'"t"', name: deep}
    line = b"{%b}\n" % b",".join(b'"%b":%b' % (key.encode(), fields[key]) for key in fields)
    report = bus.import_jsonl(io.BytesIO(line + b'{"id":"after","from":"a","type":"t"}\n'))
    assert (report.stored, report.reasons) == (1, [(1, "the line is nested too deep")])


def test_the_deepest_payload_imports_from_its_line(bus: Bus, tmp_path: Path) -> None:
    """Promise 8: what may be published comes back from an export."""
    payload: object = 1
    for _ in range(250):
        payload = [payload]
    bus.publish("note", payload, from_agent="a")
    Exporter(bus).export_once()
    with Bus.init(tmp_path / "other") as other, open(bus.layout.jsonl, "rb") as stream:
        assert other.import_jsonl(stream).stored == 1


def test_times_and_ids_are_kept_and_places_are_new(bus: Bus) -> None:
    """Pitfall 6: imported messages get new local numbers."""
    bus.publish("note", from_agent="here")
    stamp = "2026-05-28T22:08:35.897Z"
    bus.import_jsonl(lines(record("x", seq=1, ts=stamp)))
    message = bus.get("x")
    assert message is not None
    assert message.seq == 2
    assert json.loads(message.to_line())["ts"] == stamp


def test_an_interrupted_import_goes_on_where_it_was(bus: Bus) -> None:
    many = [record(str(n), payload=n) for n in range(2500)]

    class Broken(io.BytesIO):
        def seekable(self) -> bool:
            return False  # else it would break while it is looked through for conflict markers

        def readline(self, size: int | None = -1, /) -> bytes:
            if self.tell() > 100_000:
                raise KeyboardInterrupt
            return super().readline(size)

    whole = lines(*many).getvalue()
    with pytest.raises(KeyboardInterrupt):
        bus.import_jsonl(Broken(whole))
    stored = bus.log.newest_seq()
    assert stored in (1000, 2000)
    report = bus.import_jsonl(io.BytesIO(whole))
    assert (report.stored, report.duplicates) == (2500 - stored, stored)
    assert [message.payload for message in bus.read()] == list(range(2500))


def test_doubled_and_reordered_lines_are_stored_once(bus: Bus) -> None:
    """Pitfall 19, issue 4: it goes by id; an answer may stand before what it answers."""
    answer = record("b", in_reply_to="a", correlation_id="a")
    report = bus.import_jsonl(lines(answer, record("a"), answer, record("a"), record("a")))
    assert (report.stored, report.duplicates, report.skipped) == (2, 3, 0)
    assert [message.id for message in bus.read()] == ["b", "a"]


def test_a_torn_last_line_is_told_from_a_bad_one(bus: Bus) -> None:
    """Pitfall 22."""
    whole = lines(record("a"), record("b")).getvalue()
    report = bus.import_jsonl(io.BytesIO(whole[:-9]))
    assert (report.stored, report.skipped) == (1, 1)
    assert report.reasons[0][1].startswith("the file ends within the line: ")
    assert bus.import_jsonl(io.BytesIO(whole)).stored == 1


@pytest.mark.parametrize("marker", ["<<<<<<< HEAD", "||||||| 1a2b3c4", "=======", ">>>>>>> topic"])
@pytest.mark.parametrize("place", [0, 1, 1500])
def test_conflict_markers_store_nothing(marker: str, place: int, bus: Bus) -> None:
    """Issue 4: one clear line, and nothing is changed, however far down the marker stands."""
    many = lines(*(record(str(n)) for n in range(1500))).getvalue().splitlines(keepends=True)
    many.insert(place, marker.encode() + b"\n")
    with pytest.raises(ConflictMarkers, match=f"line {place + 1} is a conflict marker") as refused:
        bus.import_jsonl(io.BytesIO(b"".join(many)))
    assert refused.value.number == place + 1
    assert bus.log.newest_seq() == 0


def test_a_pipe_ends_at_a_conflict_marker(bus: Bus) -> None:
    class Pipe(io.BytesIO):
        def seekable(self) -> bool:
            return False

    data = lines(record("a")).getvalue() + b"<<<<<<< HEAD\n"
    with pytest.raises(ConflictMarkers, match="line 2"):
        bus.import_jsonl(Pipe(data))


def test_progress_counts_bytes(bus: Bus) -> None:
    data = lines(*(record(str(n)) for n in range(2001))).getvalue()
    seen: list[int] = []
    bus.import_jsonl(io.BytesIO(data), progress=seen.append)
    assert seen == sorted(seen)
    assert len(seen) == 3
    assert seen[-1] == len(data)


@pytest.mark.parametrize(
    ("entry", "reason"),
    [
        ("type", "not a field map entry"),
        ("type=", "not a field map entry"),
        ("typo=kind", "no field 'typo'"),
        ("headers.=x", "no field 'headers.'"),
        ("seq=n", "no field 'seq'"),
    ],
)
def test_a_wrong_field_map_is_refused(entry: str, reason: str) -> None:
    with pytest.raises(InvalidInput, match=reason):
        FieldMap([entry])


def test_a_field_map_renames_defaults_and_keeps_the_rest(bus: Bus) -> None:
    fields = FieldMap(["type=kind|NOTE,payload=body", "headers.prio=priority", "headers.*=*"])
    theirs = {"id": "1", "from": "a", "body": "text", "priority": "high", "branch": "b"}
    bus.import_jsonl(lines(theirs, {**theirs, "id": "2", "kind": "ASK"}), field_map=fields)
    first, second = bus.read()
    assert (first.type, first.payload, first.priority) == ("NOTE", "text", 1)
    assert first.headers == {"prio": "high", "branch": "b"}
    assert second.type == "ASK"


def test_real_traffic_imports_whole(bus: Bus) -> None:
    """The issue's main input: 297 real messages by a field map, and the bus works on them."""
    if not H5I.exists():
        pytest.skip("the real traffic, shared/data/h5i-messages.jsonl, is not beside this clone")
    with H5I.open("rb") as stream:
        report = bus.import_jsonl(stream, field_map=FieldMap(H5I_MAP))
    assert report == ImportReport(lines=297, stored=297)
    theirs = [json.loads(line) for line in H5I.read_bytes().splitlines()]
    assert [m.payload for m in bus.read()] == [line["body"] for line in theirs]
    assert len(list(bus.blobs)) > 0
    answered = next(line for line in theirs if "reply_to" in line)
    conversation = list(bus.read(conversation=answered["thread_id"]))
    assert answered["id"] in [message.id for message in conversation]
    claude = Inbox(bus, "claude")
    expected = [line["id"] for line in theirs if line["to"] == "claude"]
    seen: list[str] = []
    claude.run(lambda message: seen.append(message.id), drain=True)
    assert seen == expected
    assert bus.agents.names() == ["claude", "codex", "human", "reviewer"]
    assert Exporter(bus).export_once() == 297


@pytest.mark.slow
def test_the_command_imports_real_traffic(run_bus: RunBus, bus_dir: Path) -> None:
    """The field map on the command line; a second time everything is a duplicate."""
    if not H5I.exists():
        pytest.skip("the real traffic, shared/data/h5i-messages.jsonl, is not beside this clone")
    maps = [argument for entry in H5I_MAP for argument in ("--map", entry)]
    first = run_bus("import", H5I, *maps, "--json")
    assert first.code == 0, first.err
    assert json.loads(first.out)["stored"] == 297
    again = run_bus("import", H5I, *maps, "--json")
    assert (json.loads(again.out)["stored"], json.loads(again.out)["duplicates"]) == (0, 297)
    assert run_bus("export").code == 0
    replayed = run_bus("replay", "--from", "1", "--json")
    assert replayed.out.encode() == (bus_dir / "bus.jsonl").read_bytes()


def test_own_export_of_what_a_raw_writer_stored_is_all_duplicates(bus: Bus, bus_dir: Path) -> None:
    """Pitfall 18: a large payload in the row, and empty headers, are as good as our own form."""
    raw_sql(
        bus_dir,
        "INSERT INTO messages (id, ts_ms, from_agent, type, payload)"
        f" VALUES ('large', 1, 'raw', 'note', '\"{'x' * 5000}\"')",
        "INSERT INTO messages (id, ts_ms, from_agent, type, headers)"
        " VALUES ('empty', 1, 'raw', 'note', '{}')",
    )
    Exporter(bus).export_once()
    with open(bus.layout.jsonl, "rb") as stream:
        report = bus.import_jsonl(stream)
    assert (report.duplicates, report.reasons) == (2, [])


@pytest.mark.parametrize("payload", ["not json", '{"a":\n', "[" * 2000, "x" * 5000, ""])
def test_a_payload_that_is_no_json_comes_over_as_it_is(
    payload: str, bus: Bus, bus_dir: Path, tmp_path: Path
) -> None:
    """Promise 8, M-52: else no exporter could go on where git brought such a line."""
    raw_sql(
        bus_dir,
        "INSERT INTO messages (id, ts_ms, from_agent, type, payload)"
        f" VALUES ('broken', 1, 'raw', 'note', '{payload}')",
    )
    Exporter(bus).export_once()
    line = Path(bus.layout.jsonl).read_bytes()
    with Bus.init(tmp_path / "other") as other:
        Path(other.layout.jsonl).write_bytes(line)
        fields = FieldMap()
        assert other.import_jsonl(io.BytesIO(line), field_map=fields).stored == 1
        assert other.import_jsonl(io.BytesIO(line)).duplicates == 1
        assert not fields.unread
        (message,) = other.read()
        assert (message.raw_payload, message.payload_error) == (payload, "decode_failed")
        Exporter(other).export_once()
        assert Path(other.layout.jsonl).read_bytes() == line


@pytest.mark.slow
def test_large_lines_are_stored_before_many_are_in_memory(bus: Bus) -> None:
    """A transaction of an import is bounded by bytes, and not only by lines."""
    large = [record(str(number), payload="x" * (BATCH_BYTES // 4)) for number in range(9)]
    done: list[int] = []
    report = bus.import_jsonl(lines(*large), progress=lambda _: done.append(bus.log.newest_seq()))
    assert (report.stored, done) == (9, [4, 8, 9])


def test_a_reply_that_names_no_conversation_imports_as_it_is(bus: Bus, tmp_path: Path) -> None:
    """X-37: a raw writer's reply may have a NULL correlation_id; its line means the same again."""
    bus.publish("ask", from_agent="a", id="parent")
    file_of(bus).change(
        "INSERT INTO messages (id, ts_ms, from_agent, type, in_reply_to)"
        " VALUES ('reply', 1, 'b', 'answer', 'parent')"
    )
    Exporter(bus).export_once()
    for target in (bus, Bus.init(tmp_path / "other")):
        with open(bus.layout.jsonl, "rb") as stream:
            assert target.import_jsonl(stream).skipped == 0
        assert [m.to_line() for m in target.read()] == [m.to_line() for m in bus.read()]
    target.close()


@pytest.mark.parametrize("name", ["/dev/zero", "sparse"])
def test_import_of_a_file_without_a_line_ends_at_once(
    name: str, run_bus: RunBus, bus_dir: Path, project: Path
) -> None:
    """The end of the line was looked for, which /dev/zero does not have."""
    assert bus_dir.is_dir()
    with (project / "sparse").open("wb") as file:
        file.truncate(3 * 2**30)
    done = run_bus("import", name)
    assert (done.code, done.err.count("\n")) == (3, 1)
    assert "line 1 has more than 134,217,728 bytes" in done.err
    assert run_bus("read").out == ""
