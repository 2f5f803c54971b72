"""Schedules as records: their defaults, and the hash of what decides their times."""

import pytest

from ackbus.automation.config.models import ScheduleEntry, Window

from ..conftest import Folder


def entries(folder: Folder, schedules: str) -> tuple[ScheduleEntry, ...]:
    folder.write(config=f"plugins:\n  echo:\n    schedules: {schedules}\n")
    return folder.load().plugins["echo"].schedules


@pytest.mark.requirement("D-36", "D-37")
def test_a_schedule_polls_by_default(folder: Folder) -> None:
    (entry,) = entries(folder, "[{every: 5m}]")
    assert (entry.plugin, entry.id, entry.command) == ("echo", "default", "poll")
    assert (entry.every_s, entry.payload, entry.timezone) == (300, {}, None)
    assert (entry.catch_up, entry.if_running, entry.catch_up_max) == ("skip", "skip", 100)
    assert entries(folder, "") == ()


@pytest.mark.requirement("D-38")
def test_a_schedule_has_one_kind_of_times(folder: Folder) -> None:
    text = """
      - {id: a, cron: " 0  9 * * 1-5 "}
      - {id: b, at: 2026-03-15T14:00:00Z}
      - {id: c, after: 0s}
      - {id: d, every: monthly}
    """
    a, b, c, d = entries(folder, text)
    assert (a.cron, a.every_s, a.at_ms, a.after_s) == ("0 9 * * 1-5", None, None, None)
    assert (b.at_ms, c.after_s, d.every_s) == (1_773_583_200_000, 0, 30 * 86_400)


@pytest.mark.requirement("D-43", "D-44", "D-45")
def test_windows_zones_and_weekdays_are_kept(folder: Folder) -> None:
    (entry,) = entries(
        folder,
        "[{cron: '* * * * *', only_between: 22:00-06:00, timezone: Australia/Sydney,"
        " not_on: [saturday, 7]}]",
    )
    assert entry.only_between == Window(start_minute=1320, end_minute=360)
    assert (entry.timezone, entry.not_on) == ("Australia/Sydney", {0, 6})


def test_the_hash_changes_with_the_times_alone(folder: Folder) -> None:
    def hash_of(text: str) -> str:
        (entry,) = entries(folder, f"[{{{text}}}]")
        return entry.hash

    usual = hash_of("every: 5m")
    assert usual == hash_of("every: 300s, id: x, command: sync, payload: {a: 1}, catch_up: run_all")
    others = ["every: 6m", "every: 5m, jitter: 5s", "every: 5m, timezone: UTC", "after: 5m"]
    assert len({usual, *map(hash_of, others)}) == 5
