"""The path through the commands: first help, words of other systems, mistyped words."""

import itertools
import re
import shlex
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from ackbus import Bus, Queue
from ackbus.cli import app, catalogue, hints
from ackbus.cli.catalogue import (
    CHOICES,
    EXTRAS,
    FIRST,
    GROUPS,
    MODULES,
    OTHER_OPTIONS,
    POINTERS,
    POINTERS_IN_GROUPS,
    SECTIONS,
    SYNONYMS,
)
from ackbus.cli.definition import similar
from ackbus.cli.show.output import Output

from ..conftest import RunBus
from ..sizes import sampled
from .conftest import assert_error
from .reference import commands

#: What users of other systems type first.
TYPED = {
    "redis": "publish subscribe psubscribe xadd xread xreadgroup xack lpush rpop blpop keys info"
    " monitor ping dbsize flushall bgsave",
    "nats": "pub sub req reply stream consumer server bench",
    "kafka": "produce consume topics groups offsets",
    "rabbitmq": "declare bind get status purge",
    "celery": "worker beat call result events inspect status purge flower",
    "git": "init push pull fetch log show diff branch checkout merge clone status commit",
    "kubectl": "get describe logs delete exec top run ps start stop restart rm ls attach",
    "issue": "send status ls version help subscribe consume receive pull push produce emit list get"
    " watch info ps logs health start stop",
}


#: The advice where a text was taken for an option.
AFTER_DASHES = "; a text that begins with - goes after --"


def quoted(text: str) -> list[list[str]]:
    """The command lines that a text quotes, without `bus`."""
    return [shlex.split(line)[1:] for line in re.findall(r"'(bus [^']*)'", text)]


def command_of(line: list[str]) -> Any:
    """The command that a line calls; fails where it has a word or an option that is not there."""
    if line[0] == "help":
        return app.program()
    command: Any = app.program().commands[line[0]]
    words = line[1:]
    if hasattr(command, "commands") and words and not words[0].startswith("-"):
        command = command.commands[words.pop(0)]
    options = {name for parameter in command.params for name in parameter.opts} | {"--", "--help"}
    assert {word for word in words if word.startswith("-")} <= options, line
    metavars = " ".join(str(parameter.metavar) for parameter in command.params)
    for before, word in itertools.pairwise(["", *words]):
        if word.isupper() and (before == "--" or not before.startswith("-")):
            assert re.search(rf"\b{word}\b", metavars), (line, metavars)
    return command


@pytest.fixture
def refusal(capsys: pytest.CaptureFixture[str]) -> Callable[..., str]:
    """Parses a line that is refused as a mistake, and returns the sentence about it."""

    def refuse(*words: str) -> str:
        assert app.run(Output([*words]), [*words]) == 2
        return capsys.readouterr().err.removeprefix("bus: ").rstrip("\n")

    return refuse


def test_first_help_has_eight_commands_and_fits_a_screen(run_bus: RunBus) -> None:
    shown = run_bus("help", env={"COLUMNS": "80"})
    assert (shown.code, shown.err) == (0, "")
    assert run_bus("--help", env={"COLUMNS": "80"}) == shown
    bare = run_bus(env={"COLUMNS": "80"})  # a line without a command is a mistake
    assert (bare.code, bare.out, bare.err.strip()) == (2, "", shown.out.strip())
    lines = shown.out.splitlines()
    assert len(lines) < 24
    assert max(map(len, lines)) <= 80
    assert len(FIRST) == 8
    assert re.findall(r"^  (\w+)  ", shown.out, re.MULTILINE) == list(FIRST)
    assert "bus help all" in shown.out


def test_help_all_lists_every_command_in_its_group(run_bus: RunBus) -> None:
    shown = run_bus("help", "all", env={"COLUMNS": "80"})
    assert shown.code == 0
    for heading, names in GROUPS.items():
        section = shown.out.partition(f"\n{heading}:\n")[2].partition("\n\n")[0]
        assert [line.split()[0] for line in section.splitlines()] == list(names)
    assert max(map(len, shown.out.splitlines())) <= 80
    optional = {name for heading in GROUPS if "optional" in heading for name in GROUPS[heading]}
    assert EXTRAS.keys() <= optional


@pytest.mark.parametrize("line", ["queue", "publish", "queue create", "pub"])
def test_help_explains_a_command(run_bus: RunBus, line: str) -> None:
    explained = run_bus("help", *line.split())
    assert explained == run_bus(*line.split(), "--help")
    assert explained.out.startswith("Usage: bus ")


def test_words_without_quotes_are_told_to_be_quoted(refusal: Callable[..., str]) -> None:
    sentence = refusal("publish", "note", "hello", "big", "world", "--from", "ann")
    assert "big world; quote a text of several words; see 'bus publish --help'" in sentence


def test_help_within_a_group(run_bus: RunBus) -> None:
    assert run_bus("queue", "help") == run_bus("queue", "--help")
    assert run_bus("queue", "help", "create") == run_bus("queue", "create", "--help")
    assert_error(run_bus("help", "publsh"), 2, "'bus publish'")
    assert_error(run_bus("help", "queue", "crate"), 2, "'bus queue create'")


@pytest.mark.parametrize(
    ("typed", "meant"),
    [("pub", "publish"), ("PUB", "publish"), ("queue ls", "queue list"), ("version", "--version")],
)
def test_words_that_mean_one_command_run_it(run_bus: RunBus, typed: str, meant: str) -> None:
    assert run_bus(*typed.split(), "--help") == run_bus(*meant.split(), "--help")


def test_a_message_that_is_sent_is_published(run_bus: RunBus) -> None:
    run_bus("init")
    assert run_bus("emit", "note", "Hi", "--from", "ann", "--to", "bob").code == 0
    assert "Hi" in run_bus("poll", "bob").out


@pytest.mark.parametrize("word", ["send", "enqueue"])
def test_a_word_after_which_others_take_a_recipient_only_points(run_bus: RunBus, word: str) -> None:
    """Else `bus send bob hello` would be a broadcast of the type bob."""
    run_bus("init")
    refused = run_bus(word, "bob", "hello", "--from", "ann")
    assert_error(refused, 2, "bus publish TYPE BODY --to AGENT")


def test_every_word_of_the_table_leads_to_commands_that_exist() -> None:
    for lines in POINTERS:
        for line in lines:
            command_of(shlex.split(line))
    for name in SYNONYMS.values():
        assert name in MODULES or name == "--version"
    in_groups = {path.split()[1] for path, _ in commands() if " " in path.removeprefix("bus ")}
    inner = {path.rpartition(" ")[2] for path, _ in commands() if path.split()[1] in in_groups}
    for names in POINTERS_IN_GROUPS:
        assert set(names) & inner, names
    options = {name for _, command in commands() for p in command.params for name in p.opts}
    for names in OTHER_OPTIONS:
        assert set(names) <= options, set(names) - options


@pytest.mark.parametrize("table", ["POINTERS", "POINTERS_IN_GROUPS", "OTHER_OPTIONS"])
def test_no_word_stands_twice_in_a_table(table: str) -> None:
    words = Counter(word for row in getattr(catalogue, table).values() for word in row.split())
    repeated = {word for word, count in words.items() if count > 1}
    if table == "POINTERS":
        assert not words.keys() & (MODULES.keys() | SYNONYMS.keys())
        assert not repeated


def test_words_of_other_systems_are_understood_or_lead_on(refusal: Callable[..., str]) -> None:
    for word in {word for words in TYPED.values() for word in words.split()}:
        if word in MODULES or word in SYNONYMS or word == "help":
            continue
        sentence = refusal(word)
        assert repr(word) in sentence
        lines = quoted(sentence)
        assert lines, sentence
        assert all(map(command_of, lines))


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("publsh t", "bus publish"),
        ("Publish t", "bus publish"),
        ("plugins list", "bus plugin"),
        ("queue lst", "bus queue list"),
        ("queue delete q", "bus queue remove"),
        ("queue publish", "bus publish"),
        ("task Spawn", "bus task spawn"),
        ("task assign", "bus task spawn"),
        ("setup claud", "bus setup claude"),
        ("list queues", "bus queue list"),
        ("create queue q", "bus queue create"),
        ("approve", "bus task approve"),
        ("LPUSH t x", "bus publish TYPE BODY"),
        ("list tasks", "bus task list"),
        ("get jobs", "bus job list"),
    ],
)
def test_mistyped_commands_are_told_what_they_may_mean(
    refusal: Callable[..., str], typed: str, meant: str
) -> None:
    assert f"'{meant}'" in refusal(*typed.split()).partition("; did you mean ")[2]


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("poll a --lmit 3", "did you mean --limit?"),
        ("publish t --form a", "did you mean --from?"),
        ("read -type t", "'-type'; did you mean --type?"),
        ("read --TYPE t", "did you mean --type?"),
        ("read --topic t", "did you mean --type?"),
        ("run --max_attempts 3 -- true", "did you mean --max-attempts?"),
        ("queue create q --types t", "did you mean --type?"),
        ("publish t --message hi", "did you mean --data or --file?"),
        ("--jsn", "did you mean --json?"),
        ("queue --jsn", "did you mean --json?"),
        ("poll a -z", "no option '-z'; see 'bus poll --help'"),
        ("queue --dirr x list", "did you mean --dir?"),
        ("publish t -hello --from a", f"option '-hello'{AFTER_DASHES}; see 'bus publish --help'"),
        ("publish t -5 --from a", f"option '-5'{AFTER_DASHES}; see 'bus publish --help'"),
        ("search -hello", f"option '-hello'{AFTER_DASHES}; see 'bus search --help'"),
        ("publish t -i a", "did you mean --id?"),
        ("publish t -fron a", "did you mean --from?"),
    ],
)
def test_mistyped_options_are_told_what_they_may_mean(
    refusal: Callable[..., str], typed: str, meant: str
) -> None:
    assert refusal(*typed.split()).endswith(meant)


@pytest.mark.parametrize("path", sampled((path for path, _ in commands()), every=8))
def test_each_command_is_named_where_a_letter_is_missing(path: str) -> None:
    """Every command and option of every level, one letter short or with two exchanged."""
    group, _, name = path.rpartition(" ")
    top: Any = app.program()
    siblings = top.commands if group == "bus" else top.commands[group.split()[1]].commands
    options = [o for p in siblings[name].params for o in p.opts if o.startswith("--")]
    for word, names in [(name, list(siblings)), *((option, options) for option in options)]:
        for index in range(len(word) - len(word.lstrip("-")), len(word) - 1):
            if len(word.strip("-")) < 4:
                continue
            short = word[:index] + word[index + 1 :]
            if short not in names:
                assert word in similar(short, names), (short, word)


def test_a_long_or_strange_word_costs_little_and_stays_one_line(run_bus: RunBus) -> None:
    for word in ("", "x" * 100_000, "\x1b[31m", "--" + "y" * 100_000, "a\nb", "'", "-"):
        assert_error(run_bus(word, "z"), 2)
        assert_error(run_bus("queue", word), 2)


def test_choices_are_commands_and_their_help_shows_the_whole_set(run_bus: RunBus) -> None:
    for choices in CHOICES:
        for path in choices:
            command_of(path.split())
            shown = run_bus(*path.split(), "--help", env={"COLUMNS": "80"}).out
            section = shown.partition("\nWhich to use:\n")[2].partition("\n\n")[0]
            assert section.splitlines() == [
                f"  {f'bus {name}':<{4 + max(map(len, choices))}}  {use}"
                for name, use in choices.items()
            ]


def test_the_sections_of_a_group_have_all_its_commands(run_bus: RunBus) -> None:
    for group, sections in SECTIONS.items():
        names = [name for names in sections.values() for name in names]
        top: Any = app.program()
        assert sorted(names) == sorted(top.commands[group].commands)
        shown = run_bus(group, "--help", env={"COLUMNS": "80"}).out
        assert re.findall(r"^  (\w+)  +\w.*\.$", shown, re.MULTILINE) == names


@pytest.mark.parametrize(
    ("typed", "line"),
    [
        ("build.request", "read --type {}"),
        ("Build_Request", "poll bob --type {}"),
        ("build-request", "run --type {} --drain -- true"),
        ("BUILD_REQUEST", "queue create {}"),
        ("Build.Request", "queue create q --type {}"),
        ("buildRequest", "request {} hi --from ann --timeout 1ms"),
        ("Build-Request", "publish {} --from ann -v"),
    ],
)
def test_another_spelling_of_a_known_type_is_noted(
    bus: Bus, run_bus: RunBus, typed: str, line: str
) -> None:
    """A type is compared exactly: whoever spells it otherwise waits for nothing."""
    if line.startswith("request"):
        line += " --success-type a --failure-type b"
    bus.publish("build_request", from_agent="ann")
    ended = run_bus(*line.format(typed).split())
    assert f"no message has the type {typed!r}; did you mean build_request?" in ended.err
    for word in ("build_request", "other"):  # known, or another type
        assert "did you mean" not in run_bus(*line.format(word).split()).err


def test_a_type_that_a_queue_takes_is_known(bus: Bus, run_bus: RunBus) -> None:
    Queue.create(bus, "q", "build.request")
    ended = run_bus("publish", "build_request", "--from", "ann", "-v")
    assert "did you mean build.request?" in ended.err
    assert run_bus("publish", "build_request", "--from", "ann").err == ""  # a program's hot path


@pytest.mark.parametrize("state", ["SUCCEEDED", "Completed", "timed-out", "failed"])
def test_states_of_jobs_are_understood_in_any_case(bus: Bus, run_bus: RunBus, state: str) -> None:
    Queue.create(bus, "q", "t")
    assert run_bus("job", "list", "--state", state) == run_bus("job", "list", "--state", "failed")


def test_a_hint_to_help_names_no_bus() -> None:
    """`bus help crew --dir X` would be a mistake; other commands are to find the same bus."""
    text = "see 'bus help crew', 'bus crew --help' or 'bus read'"
    assert hints.completed(text, ("--dir", "/x")) == text.replace(
        "'bus read'", "'bus read --dir /x'"
    )
