"""Every wrong setting is refused at its line, with what to write, and all of them at once."""

import pytest

from ..conftest import Folder


def refused(folder: Folder, config: str) -> list[str]:
    folder.write(config=config)
    return [told.removeprefix("config.yaml:") for told in folder.told()]


@pytest.mark.parametrize(
    ("config", "told"),
    [
        ("servce: {}\n", "1: servce: 'servce' is not a setting here; did you mean 'service'?"),
        (
            "service: {tick_intervall: 5s}\n",
            "1: service.tick_intervall: 'tick_intervall' is not a setting here; did you mean"
            " 'tick_interval'?",
        ),
        ("service: {tick_interval: 50ms}\n", "1: service.tick_interval: write at least 0.1"),
        (
            "service: {tick_interval: 60}\n",
            "1: service.tick_interval: '60' is not a positive duration; write one such as 90s, 5m"
            " or 1h30m",
        ),
        ("service: {max_workers: 0}\n", "1: service.max_workers: write at least 1"),
        ("service: {max_workers: many}\n", "1: service.max_workers: write a whole number"),
        ("service: {strict_mode: maybe}\n", "1: service.strict_mode: write true or false"),
        (
            "service: {log_level: loud}\n",
            "1: service.log_level: 'loud' is not known; write 'debug', 'info', 'warn' or 'error'",
        ),
        ("service: []\n", "1: service: write a map"),
        ("service: {name: {a: b}}\n", "1: service.name: write a word, not a map"),
        ("plugins: []\n", "1: plugins: write a map"),
        ("routes: {}\n", "1: routes: write a list"),
        ("plugin_roots: plugins\n", "1: plugin_roots: write a list"),
        (
            "plugins_dir: ./plugins\n",
            "1: plugins_dir: 'plugins_dir' is not a setting here: write plugin_roots, a list:"
            " plugin_roots: [DIR]",
        ),
        (
            "instances: []\n",
            "1: instances: 'instances' is not a setting here: events are not relayed between"
            " services here; let a plugin send a webhook",
        ),
        (
            "vault: {}\n",
            "1: vault: 'vault' is not a setting here: there is no store of secrets; write"
            " ${NAME}, and name a file of variables in environment_vars.include",
        ),
    ],
)
@pytest.mark.requirement("D-35", "X-26", "R-21", "Q-27")
def test_a_wrong_setting_is_refused(folder: Folder, config: str, told: str) -> None:
    assert refused(folder, config) == [told]


@pytest.mark.parametrize(
    ("plugin", "told"),
    [
        ("parallelism: 0", "parallelism: write at least 1"),
        ("parallelism: 5", "parallelism: write at most 4, which is service.max_workers"),
        ("max_outstanding_polls: 0", "max_outstanding_polls: write at least 1"),
        ("retry: {max_attempts: 0}", "retry.max_attempts: write at least 1"),
        ("retry: {max_attempt: 3}", "retry.max_attempt: 'max_attempt' is not a setting here; did"),
        ("retry: {backoff_base: -1s}", "retry.backoff_base: '-1s' is not a positive duration"),
        ("timeouts: {poll: 0s}", "timeouts.poll: '0s' is not a positive duration; write"),
        ("circuit_breaker: {threshold: 0}", "circuit_breaker.threshold: write at least 1"),
        ("limits: {memory: lots}", "limits.memory: 'lots' is not a positive size; write bytes"),
        ("uses: a b", "uses: 'a b' has another form; write letters, digits, _ and -"),
        ("config: 5", "config: write a map"),
        ("schedules: {every: 5m}", "schedules: write a list"),
        (
            "schedule: {every: 5m}",
            "schedule: 'schedule' is not a setting here: write schedules, a list: schedules:"
            " [{every: 5m}]",
        ),
        ("{max_attempts: 3, retry: {}}", "max_attempts: it stands in retry, too"),
    ],
)
@pytest.mark.requirement("D-29", "D-39", "D-65", "D-73", "D-74")
def test_a_wrong_setting_of_a_plugin_is_refused(folder: Folder, plugin: str, told: str) -> None:
    settings = plugin if plugin.startswith("{") else f"{{{plugin}}}"
    found = refused(folder, f"service: {{max_workers: 4}}\nplugins:\n  echo: {settings}\n")
    assert any(each.startswith(f"3: plugins.echo.{told}") for each in found), found


@pytest.mark.requirement("D-29")
def test_a_plugin_may_have_as_many_jobs_as_there_are_workers(folder: Folder) -> None:
    folder.write(config="service: {max_workers: 4}\nplugins: {echo: {parallelism: 4}}\n")
    assert folder.load().plugins["echo"].parallelism == 4


@pytest.mark.parametrize(
    ("schedule", "told"),
    [
        ("every: invalid", "every: 'invalid' is not an interval; write a positive duration such"),
        ("every: -5m", "every: '-5m' is not an interval"),
        ("every: 0s", "every: '0s' is not an interval"),
        ("every: xd", "every: 'xd' is not an interval"),
        ("every: 5m, cron: '* * * * *'", "cron: every and cron are two kinds of times; write one"),
        ("at: 2026-03-15T14:00:00Z, after: 5s", "after: at and after are two kinds of times; wri"),
        ("command: poll", ": it has no times; write one of every, cron, at and after"),
        ("every: 5m, command: handle", "command: 'handle' answers events and has no times; sched"),
        ("every: 5m, only_between: 08:00-08:00", "only_between: the window begins and ends at 08"),
        ("every: 5m, only_between: '8-22'", "only_between: '8' is not a time of day; write one"),
        ("every: 5m, timezone: Sydney", "timezone: 'Sydney' is no time zone; did you mean 'Austr"),
        ("every: 5m, timezone: /etc/passwd", "timezone: '/etc/passwd' is no time zone"),
        ("every: 5m, timezone: Europe", "timezone: 'Europe' is no time zone"),
        ("every: 5m, not_on: [saturday, 8]", "not_on[1]: '8' is not a weekday; write a name"),
        ("every: 5m, not_on: saturday", "not_on: write a list"),
        ("every: 5m, preferred_window: {start: 08:00}", "preferred_window.end: 'end' is missing"),
        (
            "every: 5m, preferred_window: {start: 08:00, end: 25:00}",
            "preferred_window.end: '25:00' is not a time of day",
        ),
        ("cron: '* * * *'", "cron: cron '* * * *' has 4 fields, and not five: minute, hour, day"),
        ("cron: '0 0 * * * *'", "cron: cron '0 0 * * * *' has 6 fields"),
        ("cron: '60 * * * *'", "cron: cron '60 * * * *': minute '60' is not 0 to 59"),
        ("cron: '0 10-5 * * *'", "cron: cron '0 10-5 * * *': hour '10-5' is not 0 to 23"),
        ("cron: '0 0 L * *'", "cron: cron '0 0 L * *': day-of-month 'L' is not 1 to 31"),
        ("cron: '0 0 * * 5L'", "cron: cron '0 0 * * 5L': day-of-week '5L' is not 0 to 7"),
        ("cron: '0 0 * * 1#2'", "cron: cron '0 0 * * 1#2': day-of-week '1#2' is not 0 to 7"),
        ("cron: '0 0 * XYZ *'", "cron: cron '0 0 * XYZ *': month 'XYZ' is not 1 to 12"),
        ("cron: '0 0 31 2 *'", "cron: cron '0 0 31 2 *' never comes: month '2' has"),
        ("cron: '*/0 * * * *'", "cron: cron '*/0 * * * *': minute '*/0' is not 0 to 59"),
        (
            "cron: '@daily'",
            "cron: cron '@daily' has 1 fields, and not five: minute, hour, day of mo",
        ),
        ("every: 5m, catch_up: always", "catch_up: 'always' is not known; write 'skip', 'run_onc"),
        ("every: 5m, catch_up_max: 101", "catch_up_max: write at most 100"),
        ("every: 5m, if_running: wait", "if_running: 'wait' is not known; write 'skip', 'queue'"),
        ("every: 5m, jitter: 5m", "jitter: the jitter must be shorter than the interval"),
        ("every: 5m, payload: [1]", "payload: write a map"),
        ("evry: 5m", "evry: 'evry' is not a setting here; did you mean 'every'?"),
        ("every_s: 300", "every_s: 'every_s' is not a setting here; did you mean 'every'?"),
        ("every: 5m, plugin: echo", "plugin: 'plugin' is not a setting here"),
        ("every: 5m, hash: h", "hash: 'hash' is not a setting here"),
        ("every: 5m, place: {file: f, line: 1, path: p}", "place: 'place' is not a setting here"),
        ("at: tomorrow", "at: 'tomorrow' is not a point in time; write one such as 2026-03-15T14"),
    ],
)
@pytest.mark.requirement("D-38", "D-39", "D-40", "D-43", "D-44", "D-45", "D-47", "D-48")
def test_a_wrong_schedule_is_refused(folder: Folder, schedule: str, told: str) -> None:
    text = f"plugins:\n  echo:\n    schedules:\n      - {{{schedule}}}\n"
    start = "4: plugins.echo.schedules[0]"
    expected = f"{start}{told}" if told.startswith(":") else f"{start}.{told}"
    found = refused(folder, text)
    assert any(each.startswith(expected) for each in found), found


@pytest.mark.requirement("D-37")
def test_schedules_of_a_plugin_have_ids_of_their_own(folder: Folder) -> None:
    found = refused(folder, "plugins: {echo: {schedules: [{every: 5m}, {every: 6m}]}}\n")
    told = "the id 'default' is taken; give each schedule of a plugin its own"
    assert found == [f"1: plugins.echo.schedules[1]: {told}"]


@pytest.mark.parametrize(
    ("route", "told"),
    [
        ("{event_type: e, to: b}", "from: 'from' is missing"),
        ("{from: a, event_type: '', to: b}", "event_type: write a word"),
        ("{from: a, event_type: e, to: b c}", "to: 'b c' has another form; write PLUGIN or"),
        ("{from: a, event_type: e, to: b.c, command: d}", "command: 'b.c' names a command alrea"),
        ("{from: a, event_type: e, to: b, if: x}", "if: 'if' is not a setting here"),
        (
            "{from: core.x, event_type: e, to: b}",
            "from: 'core.x' has another form; write PLUGIN, o",
        ),
        (
            "{from: core.switch, event_type: ductile.switch.true, to: b, broadcast: true}",
            "broadcast: events of conditions can't be broadcast",
        ),
        ("5", ": write a map"),
    ],
)
@pytest.mark.requirement("D-98", "D-101")
def test_a_wrong_route_is_refused(folder: Folder, route: str, told: str) -> None:
    start = "2: routes[0]"
    expected = f"{start}{told}" if told.startswith(":") else f"{start}.{told}"
    found = refused(folder, f"routes:\n  - {route}\n")
    assert any(each.startswith(expected) for each in found), found


@pytest.mark.parametrize(
    ("pipeline", "told"),
    [
        ("{name: p, on: e}", "steps: 'steps' is missing"),
        ("{name: p, on: e, steps: []}", "steps: write at least one"),
        ("{on: e, steps: [{uses: a}]}", "name: 'name' is missing"),
        ("{name: p, steps: [{uses: a}]}", ": write on: EVENT, or on-hook: job.completed"),
        ("{name: p, on: e, on-hook: job.completed, steps: [{uses: a}]}", ": write on: EVENT, or"),
        ("{name: p, on-hook: job.ended, steps: [{uses: a}]}", "on-hook: 'job.ended' is not known"),
        ("{name: p, on: e, execution_mode: fast, steps: [{uses: a}]}", "execution_mode: 'fast' i"),
        ("{name: p, on: e, timeout: 5, steps: [{uses: a}]}", "timeout: '5' is not a positive dura"),
        ("{name: p, on: e, max_depth: -1, steps: [{uses: a}]}", "max_depth: write at least 0"),
        ("{name: p, on: e, steps: [{id: x}]}", "steps[0]: it has nothing to do; write one of uses"),
        ("{name: p, on: e, steps: [{uses: a, call: b}]}", "steps[0]: it has uses and call; write"),
        ("{name: p, on: e, steps: [{use: a}]}", "steps[0].use: 'use' is not a setting here; did y"),
        ("{name: p, on: e, steps: [{relay: {to: x}}]}", "steps[0].relay: 'relay' is not a setting"),
        (
            "{name: p, on: e, steps: [{id: x, uses: a}, {id: x, uses: b}]}",
            "steps[1].id: the id 'x'",
        ),
        (
            "{name: p, on: e, steps: [{call: q, with: {a: b}}]}",
            "steps[0].with: 'with' belongs to a",
        ),
        (
            "{name: p, on: e, steps: [{uses: a, baggage: {from: payload.x}}]}",
            "steps[0].baggage: claim an object by both: from: payload.PATH and namespace: NAME",
        ),
        (
            "{name: p, on: e, steps: [{uses: a, baggage: {x.y: event.z}}]}",
            "steps[0].baggage.x.y: 'event.z' is no source; write payload.PATH or context.PATH",
        ),
        (
            "{name: p, on: e, steps: [{uses: a, if: {path: payload.x, op: like, value: y}}]}",
            "steps[0].if.op: 'like' is no comparison; write exists, eq, neq, in,",
        ),
        (
            "{name: p, on: e, steps: [{uses: a, if: {path: payload.x, op: gt, value: y}}]}",
            "steps[0].if.value: 'gt' compares numbers; write one",
        ),
        (
            "{name: p, on: e, steps: [{uses: a, if: {path: payload.x, op: regex, value: '('}}]}",
            "steps[0].if.value: this is no regular expression",
        ),
        (
            "{name: p, on: e, steps: [{uses: a, if: {path: event.x, op: exists}}]}",
            "steps[0].if.path: 'event.x' begins nowhere; write a path of payload, context, config",
        ),
        (
            "{name: p, on: e, if: {path: config.x, op: exists}, steps: [{uses: a}]}",
            "if.path: 'config.x' begins nowhere; write a path of payload, context",
        ),
        (
            "{name: p, on: e, steps: [{uses: a, if: {all: [], path: payload.x, op: exists}}]}",
            "steps[0].if: write one of: path with op and value, all: [...], any: [...], not:",
        ),
    ],
)
@pytest.mark.requirement("D-105", "D-109")
def test_a_wrong_pipeline_is_refused(folder: Folder, pipeline: str, told: str) -> None:
    start = "2: pipelines[0]"
    expected = f"{start}{told}" if told.startswith(":") else f"{start}.{told}"
    found = refused(folder, f"pipelines:\n  - {pipeline}\n")
    assert any(each.startswith(expected) for each in found), found


def test_a_name_of_a_pipeline_is_taken_once(folder: Folder) -> None:
    one = "{name: p, on: e, steps: [{uses: a}]}"
    (told,) = refused(folder, f"pipelines:\n  - {one}\n  - {one}\n")
    assert told == "3: pipelines[1].name: the name 'p' is taken, at config.yaml:2"


def test_all_faults_of_all_files_are_told_at_once_in_their_order(folder: Folder) -> None:
    folder.write(
        config="""
            include: [a.yaml, nope.yaml, b.yaml]
            servce: {}
            service: {max_workers: 0}
        """,
        a="plugins: {echo: {schedules: [{every: 5}, {every: x}], tmeout: 5s}}\n",
        b="pipelines: [{}]\nroutes: [{}]\nroutes: []\n",
    )
    found = folder.faults()
    places = [(fault.file.rpartition("/")[2], fault.line, fault.path) for fault in found]
    assert places == [
        ("a.yaml", 1, "plugins.echo.schedules[0].every"),
        ("a.yaml", 1, "plugins.echo.schedules[1].every"),
        ("a.yaml", 1, "plugins.echo.tmeout"),
        ("b.yaml", 1, "pipelines[0].name"),
        ("b.yaml", 1, "pipelines[0].steps"),
        ("b.yaml", 2, "routes[0].event_type"),
        ("b.yaml", 2, "routes[0].from"),
        ("b.yaml", 2, "routes[0].to"),
        ("b.yaml", 3, "routes"),
        ("config.yaml", 1, "include[1]"),
        ("config.yaml", 2, "servce"),
        ("config.yaml", 3, "service.max_workers"),
    ]


@pytest.mark.requirement("D-46", "R-22", "X-27")
def test_a_preferred_window_is_taken_and_warned_of(folder: Folder) -> None:
    window = "preferred_window: {start: 08:00, end: 10:00}"
    folder.write(config=f"plugins: {{echo: {{schedules: [{{every: 5m, {window}}}]}}}}\n")
    config = folder.load()
    (entry,) = config.plugins["echo"].schedules
    assert entry.preferred_window is not None
    assert entry.preferred_window.start_minute == 480
    assert "times outside of it are moved to its next start" in str(config.warnings)


def test_a_list_of_wrong_entries_is_not_called_empty(folder: Folder) -> None:
    text = "pipelines: [{name: p, on: e, steps: [5]}]\n"
    assert refused(folder, text) == ["1: pipelines[0].steps[0]: write a map"]
