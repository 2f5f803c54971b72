"""Plugins that come with the package: what they say of themselves, copies, and how they run."""

import json
import os
import stat
from pathlib import Path
from typing import Any

import pytest

from ackbus import Bus
from ackbus.automation.active_config import examine_folder
from ackbus.automation.plugins.discovery import add as copy
from ackbus.automation.plugins.discovery import shipped
from ackbus.automation.plugins.manifest import read_manifest

from ...conftest import RunBus, wait_until
from ..api.serving import API, KEYS, api_of, problem
from ..conftest import Folder
from ..running import OK
from ..service_process import ServiceProcess
from .asking import SHIPPED, Plugin
from .test_feed import rss
from .web import Site

NAMES = ("feed", "notify", "watch")


@pytest.mark.parametrize("name", NAMES)
def test_every_manifest_is_right_and_describes_each_setting(name: str) -> None:
    manifest, faults = read_manifest(SHIPPED / name / "manifest.yaml")
    assert manifest is not None, faults
    assert {"init", "health"} < manifest.commands.keys()
    for key in (*manifest.config_keys.required, *manifest.config_keys.optional):
        assert key in manifest.description, key


@pytest.mark.requirement("D-97")
@pytest.mark.parametrize("name", NAMES)
def test_d_97_a_request_of_another_protocol_ends_with_78_and_names_both(name: str) -> None:
    asked = Plugin(name, {}).ask("poll", protocol=1)
    assert (asked.code, asked.response) == (78, {})
    told = "the request is of protocol 1; this plugin speaks protocol 2\n"
    assert asked.stderr == told


def add(run_bus: RunBus, folder: Folder, *words: str) -> Any:
    return run_bus("plugin", "add", *words, "--config", folder.path)


@pytest.mark.slow
def test_a_copy_runs_from_the_first_root_and_is_what_the_package_has(
    run_bus: RunBus, folder: Folder
) -> None:
    folder.write(config="{plugin_roots: [mine, others], plugins: {feed: {config: {url: x}}}}")
    old = os.umask(0o002)
    try:
        done = add(run_bus, folder, "feed")
    finally:
        os.umask(old)
    copy = folder.path / "mine/feed"
    assert (done.code, done.out) == (0, f"added feed 1.0.0 in {copy}\n")
    assert "set plugins.feed: enabled: true, and in its config url" in done.err
    for file in copy.iterdir():
        assert file.read_bytes() == (SHIPPED / "feed" / file.name).read_bytes()
        wanted = 0o755 if file.name == "run.py" else 0o644
        assert stat.S_IMODE(file.stat().st_mode) == wanted
    snapshot = examine_folder(folder.path, {})
    assert (list(snapshot.plugins), snapshot.faults) == (["feed"], ())


def test_a_copy_that_was_changed_stays_unless_it_is_to_be_replaced(
    run_bus: RunBus, folder: Folder
) -> None:
    folder.write(config="plugin_roots: [plugins]")
    add(run_bus, folder, "watch")
    assert add(run_bus, folder, "watch").out.startswith("left as it was: watch 1.0.0")
    program = folder.path / "plugins/watch/run.pl"
    program.write_text("mine")
    refused = add(run_bus, folder, "watch")
    assert (refused.code, program.read_text()) == (3, "mine")
    assert "--replace puts this one in its place" in refused.err
    assert add(run_bus, folder, "watch", "--replace", "--dry-run").code == 0
    assert program.read_text() == "mine"
    replaced = json.loads(add(run_bus, folder, "watch", "--replace", "--json").out)
    assert replaced["state"] == "changed"
    assert program.read_bytes() == (SHIPPED / "watch/run.pl").read_bytes()


@pytest.mark.parametrize("mine", ["a file", "a link to nothing"])
def test_a_file_of_somebody_else_stays_where_there_is_no_manifest(
    run_bus: RunBus, folder: Folder, mine: str
) -> None:
    folder.write(config="plugin_roots: [plugins]")
    program = folder.path / "plugins/watch/run.pl"
    program.parent.mkdir(parents=True)
    if mine == "a file":
        program.write_text("mine")
    else:
        program.symlink_to("/nonexistent")
    before = os.lstat(program)
    refused = add(run_bus, folder, "watch")
    assert (refused.code, os.listdir(program.parent)) == (3, ["run.pl"])
    assert os.path.samestat(os.lstat(program), before)
    assert f"{program.parent} has another run.pl; --replace puts" in refused.err
    replaced = add(run_bus, folder, "watch", "--replace", "--json")
    assert (replaced.code, json.loads(replaced.out)["state"]) == (0, "changed")
    assert program.read_bytes() == (SHIPPED / "watch/run.pl").read_bytes()


@pytest.mark.parametrize("link", ["plugins", "plugins/watch", "plugins/watch above"])
def test_no_plugin_is_copied_through_a_link_that_leaves_the_configuration(
    run_bus: RunBus, folder: Folder, tmp_path: Path, link: str
) -> None:
    """A clone brings links; what was written there would run elsewhere, or replace a program."""
    folder.write(config="plugin_roots: [plugins]")
    outside = tmp_path / "outside"
    (outside / "watch").mkdir(parents=True)
    place = folder.path / link.removesuffix(" above")
    place.parent.mkdir(exist_ok=True)
    place.symlink_to("../../outside" if link.endswith("above") else outside)
    for more in ((), ("--replace",)):
        refused = add(run_bus, folder, "watch", *more)
        assert (refused.code, refused.err.count("\n")) == (3, 1), refused
        assert " is a link to " in refused.err
    assert sorted(os.listdir(outside)) == ["watch"]
    assert os.listdir(outside / "watch") == []


def test_a_link_within_the_configuration_and_a_root_that_is_named_elsewhere_are_used(
    run_bus: RunBus, folder: Folder, tmp_path: Path
) -> None:
    (folder.path / "kept").mkdir()
    (folder.path / "plugins").symlink_to("kept")
    folder.write(config="plugin_roots: [plugins]")
    assert add(run_bus, folder, "watch").code == 0
    assert (folder.path / "kept/watch/manifest.yaml").exists()
    (tmp_path / "far").mkdir()
    (tmp_path / "link").symlink_to("far")
    folder.write(config=f"plugin_roots: ['{tmp_path}/link']")
    assert add(run_bus, folder, "watch").code == 0
    assert (tmp_path / "far/watch/manifest.yaml").exists()


def test_a_copy_that_broke_off_is_no_plugin_and_is_finished(
    run_bus: RunBus, folder: Folder
) -> None:
    folder.write(config="plugin_roots: [plugins]")
    add(run_bus, folder, "watch")
    (folder.path / "plugins/watch/manifest.yaml").unlink()
    (folder.path / "plugins/watch/notes").write_text("mine")
    assert not examine_folder(folder.path, {}).registry.found
    assert json.loads(add(run_bus, folder, "watch", "--json").out)["state"] == "new"
    assert "watch" in examine_folder(folder.path, {}).registry.found


def test_what_can_not_be_copied_says_why(run_bus: RunBus, folder: Folder) -> None:
    folder.write(config="plugins: {}")
    listed = run_bus("plugin", "add", "--json")
    assert [json.loads(line)["plugin"] for line in listed.out.splitlines()] == list(NAMES)
    assert [each.name for each in shipped()] == list(NAMES)
    none = add(run_bus, folder, "feed")
    assert (none.code, "plugin_roots: [plugins]" in none.err) == (4, True)
    folder.write(config="plugin_roots: [config.yaml]")
    assert "no plugin 'wach' comes with the package" in add(run_bus, folder, "wach").err
    broken = add(run_bus, folder, "watch")
    assert (broken.code, "can't write to" in broken.err) == (1, True)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["feed", "watch"])
def test_a_token_to_read_takes_no_news_from_the_schedule(
    bus: Bus, folder: Folder, site: Site, tmp_path: Path, name: str
) -> None:
    """A poll remembers what it has told, and a trigger tells its caller alone."""
    site.pages["/feed"] = rss("1")
    folder.write(
        api=API,
        config=f"""
        include: [api.yaml]
        plugin_roots: [plugins]
        plugins:
          feed: {{enabled: true, config: {{url: "{site.url}/feed"}}}}
          watch: {{enabled: true, config: {{path: {tmp_path}}}}}
        """,
    )
    for each in ("feed", "watch"):
        copy(each, folder.path / "plugins")
    with api_of(bus, folder) as served:
        reader = served.client(KEYS["PLUGIN_RO"])
        assert reader.post(f"/plugin/{name}/health").status_code == 202
        problem(reader.post(f"/plugin/{name}/poll"), 403, "forbidden")
        assert served.client(KEYS["PLUGIN_RW"]).post(f"/plugin/{name}/poll").status_code == 202


@pytest.mark.slow
def test_a_poll_over_the_api_hands_its_events_to_the_caller_and_a_pipeline_to_routes(
    bus: Bus, folder: Folder, site: Site
) -> None:
    site.pages["/feed"] = rss("1")
    folder.plugin("note", run=OK)
    folder.write(
        api=API,
        config=f"""
        include: [api.yaml]
        plugin_roots: [plugins]
        plugins:
          note: {{enabled: true}}
          feed: {{enabled: true, config: {{url: "{site.url}/feed"}}}}
        routes: [{{from: feed, event_type: feed.item, to: note}}]
        pipelines: [{{name: look, on: asked, steps: [{{id: look, uses: feed.poll}}]}}]
        """,
    )
    copy("feed", folder.path / "plugins")

    def handled() -> list[str]:
        found = [each for each in bus.read() if each.type == "plugin.note.handle"]
        return [each.payload["id"] for each in found]

    with api_of(bus, folder) as served:
        client = served.client()
        job_id = client.post("/plugin/feed/poll").json()["job_id"]
        served.running.ended(job_id)
        (event,) = client.get(f"/job/{job_id}").json()["result"]["events"]
        assert (event["payload"]["id"], handled()) == ("1", [])
        site.pages["/feed"] = rss("2", "1")
        served.running.ended(client.post("/pipeline/look").json()["job_id"])
        assert handled() == ["2"]


@pytest.mark.slow
def test_all_three_work_together_in_a_service(
    run_bus: RunBus, folder: Folder, site: Site, tmp_path: Path
) -> None:
    """A webhook hears of each new item and each new file once."""
    site.pages |= {"/feed": rss("2", "1"), "/hook": b""}
    (tmp_path / "in").mkdir()
    folder.write(
        config=f"""
        plugin_roots: [plugins]
        service: {{tick_interval: 1s}}
        plugins:
          feed: {{enabled: true, config: {{url: "{site.url}/feed"}}}}
          watch: {{enabled: true, config: {{path: {tmp_path}/in}}}}
          notify: {{enabled: true, config: {{via: webhook, url: "{site.url}/hook"}}}}
        routes:
          - {{from: feed, event_type: feed.item, to: notify}}
          - {{from: watch, event_type: file.added, to: notify}}
        """
    )
    for name in NAMES:
        assert add(run_bus, folder, name).code == 0
    env = {"http_proxy": "", "no_proxy": "127.0.0.1"}
    with ServiceProcess(folder.path, **env).ready() as service:
        for name in NAMES:
            assert service.run("plugin", "health", name).returncode == 0
        for _ in range(2):
            assert service.run("plugin", "run", "feed").returncode == 0
            assert service.run("plugin", "run", "watch").returncode == 0
            (tmp_path / "in/file.csv").write_text("x")
        wait_until(lambda: len([each for each in site.asked if each.method == "POST"]) == 3)
        assert service.stop() == 0
        with service.open() as bus:
            inits = [m for m in bus.read() if m.type.endswith(".init")]
            assert len(inits) == 3
    bodies = [json.loads(each.body) for each in site.asked if each.method == "POST"]
    assert [each["title"] for each in bodies[:2]] == ["Title 1", "Title 2"]
    assert bodies[2]["event"]["payload"]["path"] == f"{tmp_path}/in/file.csv"
