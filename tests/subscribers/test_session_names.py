"""Issue 19, item 3: who has which name, whatever becomes of processes and clocks."""

import os
import random
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import pytest

from ackbus import Bus, Inbox
from ackbus.errors import InvalidInput
from ackbus.export.backup import back_up
from ackbus.schema.errors import BusBusy
from ackbus.schema.process_table import Process, ancestors, process, program, runs, system
from ackbus.schema.queries import file_of
from ackbus.subscribers.inboxes.session import inbox_of
from ackbus.subscribers.inboxes.session_names import SessionNames
from ackbus.subscribers.inboxes.unread_count import look_in
from ackbus.subscribers.overview.agents import agent_records
from ackbus.subscribers.overview.retention import Retention

from ..conftest import wait_until
from ..programs import tamper
from .conftest import Clock


@pytest.mark.parametrize("value", ["'x'", "x'ff'", "1.5"])
@pytest.mark.parametrize(
    "column", ["base", "number", "process", "connection", "resume_id", "begun_at_ms", "until_ms"]
)
def test_a_row_with_a_value_of_another_type_is_no_session(
    bus: Bus, bus_dir: Path, column: str, value: str
) -> None:
    names = SessionNames.of(bus)
    names.take("reviewer", "process 1")
    tamper(
        bus_dir,
        "PRAGMA writable_schema = ON",
        "UPDATE sqlite_schema SET sql = replace(sql, 'STRICT', '') WHERE name = 'sessions'",
        "PRAGMA writable_schema = RESET",
        f"UPDATE sessions SET {column} = {value}",
    )
    session = names.named("reviewer")
    is_text = value != "x'ff'" and column in ("process", "connection", "resume_id")
    assert (session is not None) == is_text  # SQLite stores the number as its text


#: A process that holds a name, takes it when it is told to, and says which it is.
_SESSION = """
import sys
from ackbus import Bus
from ackbus.schema.process_table import process
from ackbus.subscribers.inboxes.session_names import SessionNames
import os
with Bus.open(sys.argv[1]) as bus:
    print("ready", flush=True)
    sys.stdin.readline()
    print(SessionNames.of(bus).take("reviewer", str(process(os.getpid()))).name, flush=True)
    sys.stdin.read()
"""


#: A session that handles its mail for ever: it says what it was shown, then acknowledges it.
_READER = """
import os, sys
from ackbus import Bus
from ackbus.schema.process_table import process
from ackbus.subscribers.inboxes.session import inbox_of
from ackbus.subscribers.inboxes.session_names import SessionNames
with Bus.open(sys.argv[1]) as bus:
    names, own = SessionNames.of(bus), str(process(os.getpid()))
    while True:
        name = names.take("reviewer", own).name
        inbox = inbox_of(bus, name)
        for message in inbox.poll(3, wait_s=0.1):
            os.write(1, f"{name} {message.seq}\\n".encode())
            inbox.ack(message)
"""


class Programs:
    """Processes that do nothing but run: the holders of names."""

    def __init__(self, stack: ExitStack) -> None:
        self._stack = stack

    def start(self) -> "subprocess.Popen[bytes]":
        started = subprocess.Popen(["sleep", "1000"])
        self._stack.callback(started.wait)
        self._stack.callback(started.kill)
        return started


@pytest.fixture
def programs() -> Iterator[Programs]:
    """Starts processes; they are killed at the end."""
    with ExitStack() as stack:
        yield Programs(stack)


def holder_of(started: "subprocess.Popen[bytes]") -> str:
    found = process(started.pid)
    assert found is not None
    return str(found)


def kill(started: "subprocess.Popen[bytes]") -> None:
    started.kill()
    started.wait()


def elsewhere(pid: int = 1) -> str:
    """The holder of a name that runs in another container, and can't be seen from here."""
    return str(Process(pid, 0, "agent", "4711")).partition(" on ")[0] + f" on {system()}0"


# the processes above -------------------------------------------------------------------------


def test_program_is_the_nearest_ancestor_that_is_no_shell() -> None:
    """Programs start hooks by a shell, and the server without one."""
    source = "from ackbus.schema.process_table import program; print(program())"
    direct = subprocess.check_output([sys.executable, "-c", source], text=True)
    line = '"$0" -c "$1"; true'
    shell = ["sh", "-c", 'sh -c "$0" "$1" "$2"; true', line, sys.executable, source]
    by_shell = subprocess.check_output(shell, text=True)
    assert direct == by_shell == f"{process(os.getpid())}\n"


#: A process that takes up orphans as init does, under a name, and one that outlives its parent.
_REAPER = """
import ctypes, subprocess, sys
libc = ctypes.CDLL(None)
assert libc.prctl(36, 1) == libc.prctl(15, sys.argv[1].encode()) == 0
print(subprocess.run([sys.executable, "-c", *sys.argv[2:]], stdout=subprocess.PIPE).stdout.decode())
"""
_PARENT = """
import os, subprocess, sys
subprocess.Popen([sys.executable, "-c", sys.argv[1], str(os.getpid())])
"""
_ORPHAN = """
import os, sys, time
from ackbus.schema.process_table import process, program
while os.getppid() == int(sys.argv[1]):
    time.sleep(0.01)
print(str(program()) == str(process(os.getpid())), process(os.getppid()).name)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="orphans go to process 1 elsewhere")
def test_orphan_is_no_session_of_the_process_that_took_it_up() -> None:
    """That one never ends, so a hook whose program was killed would hold a name for ever."""
    words = [sys.executable, "-c", _REAPER, "systemd", _PARENT, _ORPHAN]
    done = subprocess.run(words, check=True, capture_output=True, text=True)
    assert done.stdout.split() == ["True", "systemd"]


#: A terminal, in whose shell a person types a line.
_TERMINAL = """
import os, pty, sys
shell, typed = pty.fork()
if shell == 0:
    os.execvp("sh", ["sh"])
os.write(typed, sys.argv[1].encode() + b"\\n")
try:
    while os.read(typed, 4096):
        pass
except OSError:
    pass
"""


def test_command_that_a_person_types_is_no_session_of_the_terminal(tmp_path: Path) -> None:
    """That may run for weeks, and would keep the name from the agent; a script is one as before."""
    source = "from ackbus.schema.process_table import program; print(program() and program().name)"
    (tmp_path / "script").write_text(f"{sys.executable} -c '{source}' > by_script; true\n")
    line = f"{sys.executable} -c '{source}' > by_hand; sh script; exit"
    subprocess.run([sys.executable, "-c", _TERMINAL, line], check=True, cwd=tmp_path)
    told = [(tmp_path / name).read_text() for name in ("by_hand", "by_script")]
    assert told == ["None\n", "sh\n"]


def test_process_of_another_start_is_another(programs: Programs) -> None:
    """An id that was given again, a start of the system, another container, and no name at all."""
    started = programs.start()
    name = holder_of(started)
    began = name.split()[3]
    assert runs(name) is True
    assert runs(name.replace(f"since {began}", f"since {int(began) - 1}")) is False
    assert runs(name.replace(" on ", " on f")) is False
    assert runs(name + "0") is None
    for nonsense in ("", "bob", "process x since 1 on y", f"process {'9' * 30} since 1 on y"):
        assert runs(nonsense) is None
    kill(started)
    assert runs(name) is False


def test_process_that_nobody_has_waited_for_is_over(programs: Programs) -> None:
    started = programs.start()
    name = holder_of(started)
    started.kill()
    os.waitid(os.P_PID, started.pid, os.WEXITED | os.WNOWAIT)
    assert runs(name) is False


def test_systems_without_files_of_processes_are_asked_by_ps(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    by_files = [(each.pid, each.parent) for each in ancestors()]
    own = program()
    monkeypatch.setattr("ackbus.schema.process_table.read_proc", lambda pid, name: "")
    monkeypatch.setattr("os.path.exists", lambda path: False)
    assert [(each.pid, each.parent) for each in ancestors()] == by_files
    asked = program()
    assert asked is not None
    assert own is not None
    assert asked.pid == own.pid
    assert runs(str(asked)) is True


# names ---------------------------------------------------------------------------------------


def test_end_of_a_name_that_is_too_long_makes_room(bus: Bus, programs: Programs) -> None:
    base = "r" * 128
    names = [SessionNames.of(bus).take(base, holder_of(programs.start())).name for _ in range(11)]
    assert names[:2] == [base, "r" * 126 + "-2"]
    assert names[10] == "r" * 125 + "-11"
    assert len(set(names)) == 11
    assert {len(name) for name in names} == {128}
    bus.publish("t", from_agent=names[10], to_agent=names[9])
    assert Inbox(bus, names[9]).unread() == 1


@pytest.mark.parametrize("base", ["", " a", "a\x1b[2J", "a\nb", "a\ud800", "-a", "x" * 129])
def test_base_name_that_is_none_gets_no_session(base: str, bus: Bus, programs: Programs) -> None:
    names = SessionNames.of(bus)
    with pytest.raises(InvalidInput):
        names.take(base, holder_of(programs.start()))
    assert names.list() == []
    assert bus.agents.names() == []


def test_name_of_another_agent_is_left_to_it(bus: Bus, programs: Programs) -> None:
    """`worker` and `worker-2` may both have been set up."""
    names = SessionNames.of(bus)
    Inbox(bus, "worker-2").join()
    assert names.take("worker", holder_of(programs.start())).name == "worker"
    assert names.take("worker", holder_of(programs.start())).name == "worker-3"
    assert names.take("worker-2", holder_of(programs.start())).name == "worker-2"
    assert names.base_claimed_by("worker-2") is None


def test_lease_that_is_named_as_a_session_is_none(bus: Bus, programs: Programs) -> None:
    """Names of sessions were leases; anybody may have such a lease."""
    names = SessionNames.of(bus)
    assert bus.leases.acquire("session 1 of reviewer", "bob") is not None
    assert names.list() == []
    assert names.take("reviewer", holder_of(programs.start())).name == "reviewer"


def test_session_that_can_not_be_seen_has_its_name_while_its_heart_beats(
    bus: Bus, clock: Clock, programs: Programs
) -> None:
    names = SessionNames.of(bus)
    far = elsewhere()
    assert names.take("reviewer", far).name == "reviewer"
    here = holder_of(programs.start())
    assert names.take("reviewer", here).name == "reviewer-2"
    clock.advance(299)
    bus.heartbeats.beat("reviewer")
    clock.advance(299)
    assert not names.take("reviewer", here).claims_base
    clock.advance(2)
    assert names.take("reviewer", here).claims_base
    assert names.take("reviewer", far).name == "reviewer-3"


@pytest.mark.parametrize("step_s", [-86_400, 86_400])
def test_step_of_the_clock_takes_no_name_from_anybody(
    step_s: int, bus: Bus, clock: Clock, programs: Programs
) -> None:
    names = SessionNames.of(bus)
    first, second = programs.start(), programs.start()
    for started, name in ((first, "reviewer"), (second, "reviewer-2")):
        assert names.take("reviewer", holder_of(started)).name == name
    clock.advance(step_s)
    for started, name in ((second, "reviewer-2"), (first, "reviewer")):
        own = names.take("reviewer", holder_of(started))
        assert (own.name, own.claims_base) == (name, False)
    kill(first)
    assert names.take("reviewer", holder_of(second)).claims_base


def test_connection_has_its_name_until_it_ends_or_falls_silent(bus: Bus, clock: Clock) -> None:
    server = str(process(os.getpid()))
    names = SessionNames.of(bus)
    one, two, three = ((server, each) for each in ("one", "two", "three"))
    for holder, name in ((one, "reviewer"), (two, "reviewer-2")):
        assert names.take("reviewer", *holder, lease_s=1800).name == name
    names.leave("reviewer", *one)
    assert names.take("reviewer", *two, lease_s=1800).claims_base
    clock.advance(1799)
    assert names.take("reviewer", *three, lease_s=1800).name == "reviewer-3"
    clock.advance(2)
    assert names.take("reviewer", *three, lease_s=1800).claims_base


def test_what_is_held_already_is_only_read(bus: Bus, programs: Programs) -> None:
    """Hooks ask after every tool."""
    names = SessionNames.of(bus)
    holder = holder_of(programs.start())
    names.take("reviewer", holder)
    before = file_of(bus).rows("SELECT * FROM sessions")
    assert [names.take("reviewer", holder).name for _ in range(3)] == ["reviewer"] * 3
    assert file_of(bus).rows("SELECT * FROM sessions") == before
    with Bus.open(bus.directory, write_timeout_s=0.01) as other, bus.transaction():
        assert SessionNames.of(other).take("reviewer", holder).name == "reviewer"


@pytest.mark.slow
def test_fifty_sessions_that_start_at_once_have_fifty_names(bus: Bus) -> None:
    """Issue 19, bad input."""
    words = [sys.executable, "-c", _SESSION, bus.directory]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with ExitStack() as stack:
        sessions = [stack.enter_context(subprocess.Popen(words, **pipes)) for _ in range(50)]
        for each in sessions:
            assert each.stdout.readline() == "ready\n"
        for each in sessions:
            each.stdin.write("go\n")
            each.stdin.flush()
        names = [each.stdout.readline().strip() for each in sessions]
        for each in sessions:
            each.stdin.close()
    wanted = {"reviewer", *(f"reviewer-{number}" for number in range(2, 51))}
    assert len(names) == 50
    assert set(names) == wanted


def test_base_names_that_end_alike_are_several(bus: Bus, programs: Programs) -> None:
    """Each has its own first session."""
    names = SessionNames.of(bus)
    for base in ("a of b", "b", "B", "of b"):
        assert names.take(base, holder_of(programs.start())).name == base
    assert names.take("b", holder_of(programs.start())).name == "b-2"
    assert [each.name for each in names.running("b")] == ["b", "b-2"]


def test_resumed_session_has_the_name_that_it_had(bus: Bus, programs: Programs) -> None:
    """Its program tells an id. A hook of the program may have given it another name before."""
    names = SessionNames.of(bus)
    first, second, third = (programs.start() for _ in range(3))
    for started, id in ((first, "aa-1"), (second, "bb-2"), (third, "cc-3")):
        names.take("worker", holder_of(started), id=id)
    kill(second)
    kill(third)
    again = holder_of(programs.start())
    assert names.take("worker", again, id="new").name == "worker-2"
    resumed = names.take("worker", again, id="cc-3", is_resumed=True)
    assert (resumed.name, resumed.id) == ("worker-3", "cc-3")
    assert names.take("worker", again).name == names.find("worker", again).name == "worker-3"
    other = holder_of(programs.start())
    assert names.take("worker", other, id="bb-2", is_resumed=True).name == "worker-2"
    assert [each.name for each in names.running("worker")] == ["worker", "worker-2", "worker-3"]


def test_resumed_session_takes_no_name_that_is_not_free(bus: Bus, programs: Programs) -> None:
    """Another session has it now, or a copy of its own that still runs."""
    names = SessionNames.of(bus)
    first, second, third = (programs.start() for _ in range(3))
    for started, id in ((first, "aa"), (second, "bb")):
        names.take("worker", holder_of(started), id=id)
    copy = names.take("worker", holder_of(third), id="aa", is_resumed=True)
    assert copy.name == "worker-3"
    kill(second)
    assert names.take("worker", holder_of(programs.start()), id="dd").name == "worker-2"
    late = names.take("worker", holder_of(programs.start()), id="bb", is_resumed=True)
    assert late.name == "worker-4"


def test_first_session_has_its_name_again_though_another_claimed_it(
    bus: Bus, programs: Programs
) -> None:
    """Not while that one runs; and mail to the base name goes with the name."""
    names = SessionNames.of(bus)
    first, second = programs.start(), programs.start()
    names.take("worker", holder_of(first), id="aa")
    names.take("worker", holder_of(second), id="bb")
    kill(first)
    assert names.take("worker", holder_of(second)).claims_base
    kill(second)
    resumed = holder_of(programs.start())
    assert names.take("worker", resumed, id="aa").name == "worker"
    back = names.take("worker", resumed, id="bb", is_resumed=True)
    assert (back.name, back.claims_base) == ("worker-2", True)


def test_claimed_base_name_goes_back_to_the_session_that_is_resumed(
    bus: Bus, programs: Programs
) -> None:
    """The one that claimed it has a name of its own, and keeps that; so does a third."""
    names = SessionNames.of(bus)
    first, second, third = (programs.start() for _ in range(3))
    for started, id in ((first, "aa"), (second, "bb"), (third, "cc")):
        names.take("worker", holder_of(started), id=id)
    kill(first)
    assert names.take("worker", holder_of(second)).claims_base
    kill(second)
    assert names.take("worker", holder_of(third)).claims_base
    resumed = holder_of(programs.start())
    assert names.take("worker", resumed).name == "worker-2"
    assert names.take("worker", resumed, id="aa", is_resumed=True).name == "worker"
    left = names.take("worker", holder_of(third))
    assert (left.name, left.claims_base) == ("worker-3", False)
    assert names.take("worker", holder_of(programs.start())).name == "worker-2"


@pytest.mark.parametrize("id", ["", " ", "x" * 41, "a\nb", "a, resumed by b", "é", "-", "1 on 2"])
def test_id_that_is_none_is_not_stored(id: str, bus: Bus, programs: Programs) -> None:
    names = SessionNames.of(bus)
    taken = names.take("worker", holder_of(programs.start()), id=id, is_resumed=True)
    assert (taken.name, taken.id) == ("worker", "")


def test_id_stays_with_the_name_while_its_lease_is_renewed(
    bus: Bus, clock: Clock, programs: Programs
) -> None:
    """By the server of the program, too, which knows none."""
    names = SessionNames.of(bus)
    holder = holder_of(programs.start())
    names.take("worker", holder, id="aa")
    for seconds in (200, 1000):
        clock.advance(seconds)
        assert names.take("worker", holder).id == "aa"


# mail ----------------------------------------------------------------------------------------


@pytest.mark.slow
def test_no_mail_is_lost_whichever_session_is_killed(bus: Bus, programs: Programs) -> None:
    """Each message is seen by a session that it is for; nothing is passed that was not shown.

    Mail to a name is seen by a session of that name, or by the one that claims it; a broadcast by
    every name. Sessions are killed after they looked, and before they acknowledge.
    """
    choose = random.Random(19)
    names = SessionNames.of(bus)
    running = {started.pid: started for started in (programs.start() for _ in range(3))}
    shown: dict[str, set[int]] = {}
    sent: dict[int, str | None] = {}

    def look(started: "subprocess.Popen[bytes]") -> str:
        own = names.take("reviewer", holder_of(started)).name
        inbox = inbox_of(bus, own)
        found = inbox.poll(choose.randint(1, 4))
        shown.setdefault(own, set()).update(message.seq for message in found)
        if found and choose.random() < 0.7:
            inbox.ack(choose.choice(found))
        return own

    there = [look(each) for each in running.values()]
    assert there == ["reviewer", "reviewer-2", "reviewer-3"]
    for _ in range(300):
        to = choose.choice([None, "reviewer", "reviewer-2", "reviewer-3"])
        sent[bus.publish("t", from_agent="lead", to_agent=to).seq] = to
        if choose.random() < 0.15:
            kill(running.pop(choose.choice(list(running))))
            started = programs.start()
            running[started.pid] = started
        look(choose.choice(list(running.values())))
    while any(inbox_of(bus, look(each)).unread() for each in running.values()):
        pass
    seen = set().union(*shown.values())
    for seq, to in sent.items():
        if to is None:
            assert seq in seen
        elif to == "reviewer":
            assert seq in seen, "the base name is claimed by a session"
        else:
            cursor = Inbox(bus, to).position
            assert seq in shown.get(to, set()) or seq > cursor, "it was passed, and never shown"


@pytest.mark.slow
def test_no_mail_is_lost_where_sessions_are_killed_at_any_moment(bus: Bus, tmp_path: Path) -> None:
    """Three real sessions, of which one after another is killed and started again at once."""
    shown_by = tmp_path / "shown"
    Inbox(bus, "reviewer").join()
    running: list[subprocess.Popen[bytes]] = []
    choose, sent = random.Random(7), dict[int, str]()

    def shown() -> list[tuple[str, int]]:
        lines = shown_by.read_text().splitlines()
        return [(name, int(seq)) for name, seq in (line.split() for line in lines)]

    def start() -> None:
        words = [sys.executable, "-c", _READER, bus.directory]
        running.append(stack.enter_context(subprocess.Popen(words, stdout=out)))
        stack.callback(running[-1].kill)

    with ExitStack() as stack:
        out = stack.enter_context(shown_by.open("ab"))
        for _ in range(3):
            start()
        wait_until(lambda: len(SessionNames.of(bus).running("reviewer")) == 3)
        for _ in range(8):
            seen = len(shown())
            for _ in range(25):
                to = choose.choice(["", "reviewer", "reviewer-2", "reviewer-3"])
                sent[bus.publish("t", from_agent="lead", to_agent=to or None).seq] = to
            wait_until(lambda seen=seen: len(shown()) > seen + choose.randint(0, 20))
            kill(running.pop(choose.randrange(3)))
            start()
        wait_until(lambda: len(SessionNames.of(bus).running("reviewer")) == 3)
        there = [each.name for each in SessionNames.of(bus).running("reviewer")]
        wait_until(lambda: not any(inbox_of(bus, name).unread() for name in there))
    pairs, seqs = set(shown()), {seq for _, seq in shown()}
    assert len(sent) == 200
    for seq, to in sent.items():
        if to in ("", "reviewer"):
            assert seq in seqs
        else:
            assert (to, seq) in pairs or seq > Inbox(bus, to).position


def second_that_lags(bus: Bus, programs: Programs) -> "subprocess.Popen[bytes]":
    """The second of two sessions: only the first has acknowledged the three broadcasts."""
    names = SessionNames.of(bus)
    first, second = programs.start(), programs.start()
    for started in (first, second):
        names.take("reviewer", holder_of(started))
    for _ in range(3):
        bus.publish("t", from_agent="lead")
    Inbox(bus, "reviewer").ack(3)
    return second


def test_ended_session_holds_no_archive_after_an_hour(
    bus: Bus, clock: Clock, programs: Programs
) -> None:
    """The base name is waited for a week, as every reader; a live session as long as it lives."""
    second = second_that_lags(bus, programs)
    clock.advance(7200)
    assert Retention(bus).plan(2).upto_seq == 0
    kill(second)
    plan = Retention(bus).plan(2)
    assert (plan.upto_seq, [each.name for each in plan.passed_over]) == (2, ["reviewer-2"])


def test_session_of_a_killed_server_holds_no_archive_after_an_hour(
    bus: Bus, clock: Clock, programs: Programs
) -> None:
    """Its name was held for an hour, and is free; its heart has told when it was there."""
    names, server = SessionNames.of(bus), programs.start()
    for each in ("one", "two"):
        names.take("reviewer", holder_of(server), each, lease_s=3600)
    bus.publish("t", from_agent="lead")
    bus.publish("t", from_agent="lead")
    Inbox(bus, "reviewer").ack(2)
    bus.heartbeats.beat("reviewer-2")
    kill(server)
    clock.advance(3500)
    assert Retention(bus).plan(1).upto_seq == 0
    clock.advance(200)
    assert Retention(bus).plan(1).upto_seq == 1


def test_session_that_has_just_ended_is_still_waited_for(
    bus: Bus, clock: Clock, programs: Programs
) -> None:
    second = second_that_lags(bus, programs)
    kill(second)
    clock.advance(3500)
    assert Retention(bus).plan(2).upto_seq == 0
    clock.advance(200)
    assert Retention(bus).plan(2).upto_seq == 2


def test_people_see_whose_session_an_agent_is(bus: Bus, programs: Programs) -> None:
    names = SessionNames.of(bus)
    for started in (programs.start(), programs.start()):
        names.take("reviewer", holder_of(started))
    Inbox(bus, "reviewer").join()
    bases = {each["agent"]: each.get("session_of") for each in agent_records(bus)}
    assert bases == {"reviewer": None, "reviewer-2": "reviewer"}


def test_bus_that_can_not_be_written_gives_no_names(bus: Bus, tmp_path: Path) -> None:
    """Two sessions read it under the base name, and take nothing from each other."""
    Inbox(bus, "reviewer").join()
    bus.publish("t", "hi", from_agent="lead", to_agent="reviewer")
    back_up(bus, tmp_path / "backup")
    for holder in ("one", "two"):
        look = look_in(tmp_path / "backup", "reviewer", 9, wait_s=9, holder=holder, joins=True)
        assert (look.agent, look.session, look.unread) == ("reviewer", None, 1)


def test_name_of_a_session_that_is_set_up_too_is_had_once(bus: Bus, programs: Programs) -> None:
    """`worker-2` is the second session of `worker` here, and the base name of another program."""
    names = SessionNames.of(bus)
    first, second, other = (programs.start() for _ in range(3))
    assert names.take("worker", holder_of(first)).name == "worker"
    assert names.take("worker", holder_of(second)).name == "worker-2"
    taken = names.take("worker-2", holder_of(other))
    assert (taken.name, taken.claims_base) == ("worker-2-2", False)
    with closing(sqlite3.connect(bus.layout.database)) as watcher:
        before = watcher.execute("PRAGMA data_version").fetchone()
        assert names.take("worker-2", holder_of(other)).name == "worker-2-2"
        assert watcher.execute("PRAGMA data_version").fetchone() == before

    kill(second)
    assert names.take("worker-2", holder_of(other)).claims_base
    assert names.take("worker", holder_of(programs.start())).name == "worker-3"


def test_name_is_that_of_the_session_that_runs(bus: Bus, programs: Programs) -> None:
    """A program that was set up as `worker-2` gets no mail of `worker`, as one before it did."""
    names = SessionNames.of(bus)
    first, second, other = (programs.start() for _ in range(3))
    names.take("worker", holder_of(first))
    names.take("worker", holder_of(second))
    kill(first)
    assert names.take("worker", holder_of(second)).claims_base
    assert names.base_claimed_by("worker-2") == "worker"
    kill(second)
    assert names.bases() == {"worker-2": "worker"}
    assert names.take("worker-2", holder_of(other)).name == "worker-2"
    assert names.base_claimed_by("worker-2") is None
    assert names.bases() == {}


def test_session_keeps_its_name_beside_a_long_write(
    bus: Bus, clock: Clock, programs: Programs
) -> None:
    """Its lease is to be renewed, but its process holds it; one without a name gets none."""
    names = SessionNames.of(bus)
    first, second = holder_of(programs.start()), holder_of(programs.start())
    names.take("worker", first)
    names.take("worker", second)
    clock.advance(200)
    with Bus.open(bus.layout.directory) as other, other.transaction():
        other.publish("t", from_agent="ann")
        assert names.take("worker", second, timeout_s=0).name == "worker-2"
        with pytest.raises(BusBusy):
            names.take("worker", holder_of(programs.start()), timeout_s=0)


def test_row_that_breaks_a_rule_takes_no_name_from_its_session(
    bus: Bus, bus_dir: Path, clock: Clock, programs: Programs
) -> None:
    """A program that switches the rules off may write any row; the next holder writes all of it."""
    names = SessionNames.of(bus)
    first = programs.start()
    names.take("reviewer", holder_of(first))
    tamper(bus_dir, "UPDATE sessions SET begun_at_ms = -1, announced_seq = -1, shown = '7'")
    clock.advance(299)
    assert names.take("reviewer", holder_of(first)).name == "reviewer"
    kill(first)
    assert names.take("reviewer", holder_of(programs.start())).name == "reviewer"
    tamper(bus_dir, "UPDATE sessions SET base = 'another', number = 7, process = 'nobody'")
    assert (names.list(), names.named("reviewer")) == ([], None)
    assert names.take("reviewer", holder_of(programs.start())).name == "reviewer"
