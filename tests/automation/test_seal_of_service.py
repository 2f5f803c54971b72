"""A service and its seal: what it refuses, what it takes when told to, and what only looks."""

import pytest

from ..conftest import RunBus
from .conftest import Folder
from .running import OK
from .service_process import ServiceProcess

pytestmark = pytest.mark.slow

CONFIG = """
plugin_roots: [plugins]
plugins: {note: {schedules: [{every: 1h}]}}
pipelines: [{name: p, on: e, steps: [{uses: note}]}]
routes: [{from: note, event_type: x, to: note}]
tokens: [{name: hook, key: "${HOOK}"}]
webhooks:
  listen: 127.0.0.1:0
  endpoints: [{name: h, path: /h, plugin: note, secret_ref: hook, signature_header: X-S}]
"""
OTHER = CONFIG.replace("path: /h", "path: /other")
TOLD = "its tokens, scopes or webhooks are not as they were sealed"


@pytest.fixture
def sealed(folder: Folder) -> Folder:
    folder.write_as("config.yaml", CONFIG)
    folder.plugin("note", run=OK)
    folder.lock()
    return folder


@pytest.mark.requirement("D-151")
def test_a_changed_webhook_is_refused_at_start_and_reload_unless_it_is_allowed(
    sealed: Folder, run_bus: RunBus
) -> None:
    env = {"HOOK": "a secret"}
    service = ServiceProcess(sealed.path, **env).ready()
    try:
        sealed.write_as("config.yaml", OTHER)
        done = run_bus("automation", "reload", "--config", sealed.path, env=env)
        assert (done.code, TOLD in done.err) == (1, True)
    finally:
        assert service.stop() == 0
    started = run_bus("automation", "start", "--config", sealed.path, env=env)
    assert (started.code, TOLD in started.err) == (78, True)
    checked = run_bus("config", "check", sealed.path, env=env)
    assert (checked.code, TOLD in checked.out) == (1, True)
    allowed = ServiceProcess(sealed.path, "--allow-unsealed", **env).ready()
    try:
        done = run_bus("automation", "reload", "--config", sealed.path, env=env)
        assert done.code == 0, done.err
        assert any(TOLD in message for message in allowed.messages())
    finally:
        assert allowed.stop() == 0


def test_looking_needs_no_secret(sealed: Folder, run_bus: RunBus) -> None:
    service = ServiceProcess(sealed.path, HOOK="a secret").ready()
    try:
        for command in (
            "schedule list",
            "schedule history note.default",
            "schedule next note.default",
            "automation status",
            "automation plugins",
            "automation logs",
            "automation queue",
            "plugin list",
            "plugin show note",
            "pipeline list",
            "route list",
            "webhook list",
            "webhook show h",
            "config diff",
        ):
            where = [sealed.path] if command.startswith("config") else ["--config", sealed.path]
            done = run_bus(*command.split(), *where)
            assert done.code in (0, 4), (command, done.err)
            assert "HOOK is not defined" not in done.err
        shown = run_bus("config", "show", sealed.path)
        assert (shown.code, "a secret" in shown.out) == (0, False)
    finally:
        assert service.stop() == 0


def test_what_acts_goes_by_what_the_running_service_has_taken(
    sealed: Folder, run_bus: RunBus
) -> None:
    """A service that was told to take what is not sealed has it in force; nothing else is."""
    where, env = ("--config", sealed.path), {"HOOK": "a secret"}
    acts = ("plugin run note", "schedule run note.default", "webhook test h --dry-run")
    sealed.write_as("config.yaml", OTHER)

    def ends() -> set[tuple[int, bool]]:
        done = [run_bus(*command.split(), *where, env=env) for command in acts]
        return {(each.code, TOLD in each.err) for each in done}

    assert ends() == {(78, True)}
    service = ServiceProcess(sealed.path, "--allow-unsealed", **env).ready()
    try:
        assert ends() == {(0, False)}
        sealed.write_as("config.yaml", OTHER.replace("/other", "/third"))
        assert ends() == {(78, True)}
    finally:
        assert service.stop() == 0
    sealed.write_as("config.yaml", OTHER)
    assert ends() == {(78, True)}
