"""The file of a crew: what it makes, and each fault with its line."""

from textwrap import dedent

import pytest

from ackbus.automation.config.yaml_tree import parse
from ackbus.tasks.crew_file import CrewFaults, CrewFile, Role, read_crew


def read(text: str) -> CrewFile:
    file = "/work/crew.yaml"
    return read_crew(file, [parse(dedent(text), file)], ["bus"])


def faults(text: str) -> list[str]:
    with pytest.raises(CrewFaults) as refused:
        read(text)
    assert refused.value.exit_code == 78
    return [str(fault).removeprefix("/work/crew.yaml:") for fault in refused.value.faults]


def test_each_role_is_a_process() -> None:
    crew = read("""
        folder: repo
        environment: {LOG: debug, N: 3}
        planner: {command: ./plan --strict, timeout: 60}
        workers:
          count: 1
          max: 2
          name: coder
          program: claude
          permissions: all
          timeout: 30m
          review: none
        integrator: {into: main, check: [make test, make lint], strategy: ff, push: true}
        processes: {api: [bus, serve, --port, 8123]}
    """)
    worker = (
        "bus task work --worker {} --timeout 30m --review none --program claude --permissions all"
    )
    assert (crew.folder, crew.environment) == ("/work/repo", {"LOG": "debug", "N": "3"})
    assert crew.roles == (
        Role("planner", ("bus", "task", "plan", "--timeout", "60", "--", "./plan", "--strict")),
        Role("coder-1", tuple(worker.format("coder-1").split()), is_worker=True),
        Role("coder-2", tuple(worker.format("coder-2").split()), True, is_spare=True),
        Role(
            "integrator",
            (
                *(
                    "bus",
                    "integrate",
                    "--agent",
                    "integrator",
                    "--into",
                    "main",
                    "--strategy",
                    "ff",
                ),
                *("--check", "make test", "--check", "make lint", "--push"),
            ),
        ),
        Role("api", ("bus", "serve", "--port", "8123")),
    )


def test_worker_may_be_any_command() -> None:
    crew = read("workers: {command: 'sh -c \"a; b\"'}")
    assert crew.folder == "/work"
    assert crew.roles[0].argv[-4:] == ("--", "sh", "-c", "a; b")


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("a: [", "1: this is no YAML: "),
        ("- a", "1: write a map of settings"),
        ("", " there is no role; write planner, workers, "),
        ("workers: 3", "1: workers: write a map"),
        ("worker: {}", "1: worker: 'worker' is not a setting here; did you mean 'workers'?"),
        (
            "x: {}\nworkers: {program: a}",
            "2: workers.program: 'a' is not known; write one of",
        ),
        ("workers:\n  count: many\n  command: a", "2: workers.count: write a whole number"),
        ("workers:\n  count: true\n  command: a", "2: workers.count: write a whole number"),
        ("workers:\n  count: 65\n  command: a", "2: workers.count: write at most 64"),
        ("workers:\n  command: 'a \"'", "2: workers.command: write a command"),
        ("workers:\n  command: []", "2: workers.command: write a command"),
        ("workers:\n  command: {a: b}", "2: workers.command: write a command"),
        ("workers:\n  command: a\n  timeout: soon", "3: workers.timeout: 'soon' is no time; write"),
        (
            "workers:\n  command: a\n  name: a b",
            "3: workers.name: 'a b' has another form",
        ),
        ("workers:\n  command: a\n  permissions: all", "3: workers.permissions: it goes with"),
        (
            "workers:\n  command: a\n  count: 2\n  max: 1",
            "4: workers.max: write at least",
        ),
        ("workers: {count: 2}", "1: workers: write one of command and program"),
        ("workers: {command: a, program: codex}", "1: workers: write one of command and program"),
        ("planner: {}", "1: planner.command: 'command' is missing"),
        ("integrator:\n  check: make", "2: integrator.check: write a list"),
        ("integrator:\n  check: [a, ' ']", "2: integrator.check[1]: write a text"),
        ("integrator:\n  push: 1", "2: integrator.push: write true or false"),
        (
            "integrator:\n  push: true\n  push: true",
            "3: integrator.push: 'push' stands twice",
        ),
        (
            "environment: {A B: 1}\nintegrator: {}",
            "1: environment.A B: 'A B' has another form",
        ),
        ("environment: {A: [1]}\nintegrator: {}", "1: environment.A: write a text"),
        (
            "processes:\n  ../x: a",
            "2: processes.../x: '../x' has another form",
        ),
        ("processes: {integrator: a}\nintegrator: {}", " two roles have the name 'integrator'"),
        ("folder: .", " there is no role"),
        ("workers: {count: 0, command: a, max: 1}\n1: 2", "2: 1: '1' is not a setting here"),
    ],
)
def test_fault_is_told_with_its_line(text: str, told: str) -> None:
    assert any(fault.startswith(told) for fault in faults(text)), faults(text)


def test_all_faults_are_told_at_once() -> None:
    assert len(faults("planner: {timeout: x}\nworkers: {count: -1}\nfoo: 1")) == 5


@pytest.mark.parametrize(
    ("written", "line"),
    [
        ("touch one && touch two", "touch one && touch two"),
        ("[touch, 'one && two', 3]", "touch 'one && two' 3"),
    ],
    ids=["line", "words"],
)
def test_set_up_is_a_line_for_the_shell_and_a_list_is_words(written: str, line: str) -> None:
    """Item 23: the worker gets a line, by which a shell runs the words of a list as they are."""
    crew = read(f"workers: {{command: ./a, setup: {written}}}")
    argv = crew.roles[0].argv
    assert argv[argv.index("--setup") + 1] == line


@pytest.mark.parametrize("written", ["''", "[]", "3", "{a: 1}", "[[a]]"])
def test_set_up_is_text_or_words(written: str) -> None:
    (fault,) = faults(f"workers: {{command: ./a, setup: {written}}}")
    assert "workers.setup: write a line for the shell, or a list of words" in fault
