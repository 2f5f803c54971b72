"""Comments on lines: messages to the worker, and where the lines are later."""

import json
import random
import time
from pathlib import Path

import pytest

from ackbus import Draft
from ackbus.errors import InvalidInput
from ackbus.git.branches.repositories import LinePlace, line_at, place_now
from ackbus.git.repository import Repository
from ackbus.schema.errors import NotFound
from ackbus.tasks.board.comments import COMMENT, comment, comments, place_in

from ...conftest import RunBus
from ...git_branches.plain_git import commit, git
from ...sizes import size
from .conftest import Workshop

LINES = "".join(f"line {number}\n" for number in range(1, 11))


def test_a_comment_is_a_message_to_the_worker(workshop: Workshop) -> None:
    task = workshop.begin("one")
    head = workshop.commit(task, code=LINES)
    made = comment(workshop.bus, "one", LinePlace("code", 3), "Why?", agent="rita")
    message = workshop.bus.log.at(made.seq)
    assert message is not None
    assert (message.type, message.from_agent, message.to_agent) == (COMMENT, "rita", "worker-1")
    assert message.conversation == "one"
    assert message.payload["commit"] == made.commit == head
    assert (message.payload["line"], message.payload["text"]) == (3, "line 3")
    assert comments(workshop.bus, "one") == [made]
    assert comments(workshop.bus, "one")[0].now == LinePlace("code", 3)


def test_the_place_of_a_comment_follows_its_line(workshop: Workshop) -> None:
    task = workshop.begin("one")
    workshop.commit(task, code=LINES)
    for line in (2, 5, 9):
        comment(workshop.bus, "one", LinePlace("code", line), f"about {line}", agent="rita")
    changed = LINES.replace("line 5\n", "LINE 5\n").replace("line 4\n", "new\nnewer\nline 4\n")
    workshop.commit(task, code=changed.replace("line 7\nline 8\n", ""))
    assert [each.now for each in comments(workshop.bus, "one")] == [
        *(LinePlace("code", 2), None, LinePlace("code", 9)),
    ]
    git(workshop.path, "checkout", "--quiet", task.branch)
    git(workshop.path, "mv", "code", "moved code")
    git(workshop.path, "commit", "--quiet", "--message", "move")
    git(workshop.path, "checkout", "--quiet", "--detach", "main")
    assert [each.now for each in comments(workshop.bus, "one")] == [
        *(LinePlace("moved code", 2), None, LinePlace("moved code", 9)),
    ]
    git(workshop.path, "branch", "--force", task.branch, "main")
    assert [each.now for each in comments(workshop.bus, "one")] == [None, None, None]


def test_a_comment_on_what_is_not_there_is_refused(workshop: Workshop) -> None:
    workshop.begin("one")
    for place in (
        LinePlace("a", 4),
        LinePlace("a", 0),
        LinePlace("no", 1),
        LinePlace("../a", 1),
        LinePlace("", 1),
    ):
        with pytest.raises(NotFound, match=r"has no line \d at"):
            comment(workshop.bus, "one", place, "?", agent="rita")
    with pytest.raises(InvalidInput, match="the comment is empty"):
        comment(workshop.bus, "one", LinePlace("a", 1), " ", agent="rita")
    with pytest.raises(NotFound, match="there is no task 'two'"):
        comment(workshop.bus, "two", LinePlace("a", 1), "?", agent="rita")
    assert list(workshop.bus.read(type=COMMENT)) == []


@pytest.mark.parametrize("text", ["a", "a:", ":1", "a:x", "a:-1", "", "a:٣", "a:1:"])
def test_what_is_no_place_is_refused(text: str) -> None:
    with pytest.raises(InvalidInput, match="give FILE:LINE, such as"):
        place_in(text)
    assert place_in("a:b c:12") == LinePlace("a:b c", 12)


def test_foreign_comments_of_another_form_are_left_out(workshop: Workshop) -> None:
    workshop.begin("one")
    for payload in ("text", {"task": "one"}, {"task": "one", "line": "x"}, [1]):
        foreign = Draft(COMMENT, payload, from_agent="x", to_agent="y", correlation_id="one")
        workshop.bus.log.append([foreign])
    assert comments(workshop.bus, "one") == []


@pytest.mark.slow
def test_lines_are_where_their_text_is(tmp_path: Path) -> None:
    """Every line has a text of its own, so that the file itself tells where each is."""
    chance = random.Random(3)
    git(tmp_path, "init", "--quiet", "-b", "main")
    (tmp_path / "f").write_text("")
    git(tmp_path, "add", "f")
    git(tmp_path, "commit", "--quiet", "--message", "first")
    lines = [f"{number}" for number in range(20)]
    before = commit(tmp_path, "main", "main", f="".join(f"{line}\n" for line in lines))
    for round in range(size(sample=8, whole=60)):
        later = [line for line in lines if chance.random() < 0.8]
        for number in range(chance.randrange(4)):
            later.insert(chance.randrange(len(later) + 1), f"new {round} {number}")
        after = commit(tmp_path, "main", "main", f="".join(f"{line}\n" for line in later))
        repository = Repository(str(tmp_path))
        for number, line in enumerate(lines, 1):
            assert line_at(repository, before, LinePlace("f", number)) == line
            found = place_now(repository, before, after, LinePlace("f", number))
            if found is not None:
                assert later[found.line - 1] == line
            else:
                assert line not in later
        lines, before = later, after


def test_bus_task_comment_and_comments(workshop: Workshop, run_bus: RunBus) -> None:
    workshop.clock.now_ms = time.time_ns() // 1_000_000
    workshop.begin("one")
    place = ("--dir", workshop.bus.layout.directory)
    made = run_bus(
        "task",
        "comment",
        "one",
        "a:2",
        "Why \x1b[2J?",
        "--agent",
        "rita",
        *place,
        cwd=workshop.path,
    )
    assert (made.code, made.err) == (0, "")
    listed = run_bus("task", "comments", "one", *place, cwd=workshop.path)
    assert listed.out.splitlines()[1].split()[:3] == ["a:2", "a:2", "rita"]
    assert "Why \\x1b[2J?" in listed.out
    record = json.loads(run_bus("task", "comments", "one", "--json", *place, cwd=workshop.path).out)
    assert record["now"] == {"file": "a", "line": 2}
    assert run_bus("task", "comments", "two", *place, cwd=workshop.path).code == 4
    wrong = run_bus(
        "task", "comment", "one", "--agent", "rita", *place, "--", "-x:1", "t", cwd=workshop.path
    )
    assert (wrong.code, wrong.err.count("\n")) == (4, 1)
