"""Discovery of plugins, and the rules of trust: a bad one is left out, the others load."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from ackbus.automation.plugins.discovery import Registry, check_references, discover
from ackbus.schema.errors import NotFound

from ..conftest import Folder

CONFIG = """
    plugin_roots: [plugins]
    plugins: {good: {}, other: {}}
"""


def found(folder: Folder, config: str = CONFIG) -> Registry:
    folder.write(config=config)
    return discover(folder.load())


def told(registry: Registry) -> str:
    return "\n".join(map(str, (*registry.faults, *registry.missing)))


@pytest.fixture
def plugins(folder: Folder) -> Folder:
    """A folder with two plugins."""
    folder.plugin("good")
    folder.plugin("other")
    return folder


@pytest.mark.requirement("D-55", "R-21")
def test_plugins_are_folders_of_a_root_with_a_manifest(plugins: Folder) -> None:
    plugins.write_as("plugins/lib/oauth.py", "")
    plugins.write_as("plugins/lib/run.py", "")
    plugins.write_as("plugins/README.md", "")
    registry = found(plugins)
    assert list(registry.plugins) == ["good", "other"]
    good = registry.plugin("good")
    assert good.entrypoint == plugins.path / "plugins/good/run.sh"
    assert (registry.faults, registry.warnings) == ((), ())


def test_a_program_without_a_manifest_is_warned_of(plugins: Folder) -> None:
    plugins.write_as("plugins/halfway/run.py", "")
    (warning,) = found(plugins).warnings
    assert "it has a program and no manifest.yaml" in warning.message


@pytest.mark.requirement("D-149", "R-21")
def test_the_first_root_with_a_plugin_wins(
    plugins: Folder, make_folder: Callable[[str], Folder]
) -> None:
    second = make_folder("second")
    second.plugin("good")
    second.plugin("third")
    registry = found(
        plugins,
        f"""
        plugin_roots: [plugins, {second.path}/plugins, plugins/]
        plugins: {{good: {{}}, other: {{}}, third: {{}}}}
        """,
    )
    assert registry.plugin("good").folder == plugins.path / "plugins/good"
    assert registry.plugin("third").folder == second.path / "plugins/third"
    assert f"of {plugins.path}/plugins/good comes first" in str(registry.warnings)


@pytest.mark.requirement("D-57")
@pytest.mark.parametrize(
    ("manifest", "message"),
    [
        ("name: bad\n", "'manifest_spec' is missing"),
        ("a: [\n", "this is no YAML"),
        ("# nothing\n", "'name' is missing"),
    ],
)
def test_a_bad_plugin_is_left_out_and_the_others_load(
    plugins: Folder, manifest: str, message: str
) -> None:
    plugins.plugin("bad", manifest=manifest)
    registry = found(plugins, CONFIG.replace("other: {}", "other: {}, bad: {}"))
    assert list(registry.plugins) == ["good", "other"]
    assert message in told(registry)
    assert all(fault.file.endswith("bad/manifest.yaml") for fault in registry.faults)


@pytest.mark.requirement("D-57")
def test_a_plugin_without_its_required_settings_is_left_out(folder: Folder) -> None:
    manifest = """
        manifest_spec: ductile.plugin
        manifest_version: 1
        name: good
        version: 1.0.0
        protocol: 2
        entrypoint: run.sh
        commands: {poll: {}}
        config_keys: {required: [client_id, secret]}
    """
    folder.plugin("good", manifest)
    registry = found(folder, "plugin_roots: [plugins]\nplugins:\n  good: {config: {secret: x}}\n")
    (fault,) = registry.faults
    assert (fault.path, fault.line) == ("plugins.good", 3)
    assert fault.message == "the plugin asks for config: client_id"


def test_a_plugin_that_is_nowhere_is_told_with_near_names(plugins: Folder) -> None:
    registry = found(plugins, "plugin_roots: [plugins]\nplugins: {godo: {}, other: {}}\n")
    assert "no plugin 'godo' is in plugin_roots; did you mean 'good'?" in told(registry)
    with pytest.raises(NotFound, match="did you mean 'other'"):
        registry.plugin("othr")
    with pytest.raises(NotFound, match="has no command 'pol'; did you mean 'poll'"):
        registry.plugin("other").command("pol")


@pytest.mark.requirement("D-60", "D-81")
def test_a_link_out_of_the_roots_is_refused(plugins: Folder, tmp_path: Path) -> None:
    outside = Folder(tmp_path / "outside")
    outside.plugin("linked")
    (plugins.path / "plugins/linked").symlink_to(outside.path / "plugins/linked")
    config = f"service: {{allow_symlinks: true}}\n{CONFIG.replace('    ', '')}"
    registry = found(plugins, config)
    assert list(registry.found) == ["good", "other"]
    assert "outside of plugin_roots" in told(registry)


@pytest.mark.requirement("D-60", "D-81")
@pytest.mark.parametrize("allowed", [False, True])
def test_a_link_inside_of_the_roots_needs_the_setting_and_is_warned_of(
    folder: Folder, allowed: bool
) -> None:
    folder.plugin("good").rename(folder.path / "plugins/real-one")
    os.chmod(folder.write_as("plugins/lib/run.sh", "#!/bin/sh\n"), 0o755)
    (folder.path / "plugins/real-one/run.sh").unlink()
    (folder.path / "plugins/real-one/run.sh").symlink_to("../lib/run.sh")
    config = f"""
        service: {{allow_symlinks: {str(allowed).lower()}}}
        plugin_roots: [plugins]
        plugins: {{good: {{}}}}
    """
    registry = found(folder, config)
    assert ("good" in registry.plugins) is allowed
    assert "run.sh is a symlink" in str(registry.warnings)
    assert ("set service.allow_symlinks: true" in told(registry)) is not allowed


@pytest.mark.requirement("D-61")
@pytest.mark.parametrize("entrypoint", ["../x.sh", "bin/../../x.sh", "/bin/sh"])
def test_an_entrypoint_that_leads_out_is_refused(plugins: Folder, entrypoint: str) -> None:
    path = plugins.path / "plugins/good/manifest.yaml"
    path.write_text(path.read_text().replace("run.sh", entrypoint))
    registry = found(plugins)
    assert list(registry.plugins) == ["other"]
    assert "name a file" in told(registry)
    assert ".." not in entrypoint or "'..' leads out" in told(registry)


@pytest.mark.requirement("D-62")
def test_an_entrypoint_that_is_not_executable_is_refused(plugins: Folder) -> None:
    os.chmod(plugins.path / "plugins/good/run.sh", 0o644)
    registry = found(plugins)
    assert list(registry.plugins) == ["other"]
    assert "run.sh is not executable; chmod +x it" in told(registry)


def test_an_entrypoint_that_is_not_there_is_refused(plugins: Folder) -> None:
    (plugins.path / "plugins/good/run.sh").unlink()
    assert "there is no file" in told(found(plugins))


@pytest.mark.requirement("D-63")
@pytest.mark.parametrize(
    "what", ["plugins/good", "plugins/good/run.sh", "plugins/good/manifest.yaml"]
)
def test_what_everybody_can_write_is_refused(plugins: Folder, what: str) -> None:
    path = plugins.path / what
    os.chmod(path, path.stat().st_mode | 0o002)
    registry = found(plugins)
    assert list(registry.plugins) == ["other"]
    assert "everybody can write" in told(registry)


def test_a_root_that_everybody_can_write_refuses_all(plugins: Folder) -> None:
    os.chmod(plugins.path / "plugins", 0o777)
    assert list(found(plugins).plugins) == []


@pytest.mark.requirement("D-29", "D-30")
def test_the_operator_decides_how_many_jobs_run_then_the_author(plugins: Folder) -> None:
    path = plugins.path / "plugins/good/manifest.yaml"
    path.write_text(path.read_text() + "concurrency_safe: false\n")
    config = """
        service: {max_workers: 5}
        plugin_roots: [plugins]
        plugins:
          good: {}
          other: {}
          more: {uses: good, parallelism: 3}
          less: {uses: other, parallelism: 2}
    """
    plugins = found(plugins, config).plugins  # type: ignore[assignment]
    numbers = {name: plugin.parallelism for name, plugin in plugins.items()}  # type: ignore[attr-defined]
    assert numbers == {"good": 1, "other": 5, "more": 3, "less": 2}


def test_an_alias_has_settings_and_a_fingerprint_of_its_own(plugins: Folder) -> None:
    config = """
        plugin_roots: [plugins]
        plugins: {good: {}, again: {uses: good, config: {a: 1}}, other: {}}
    """
    registry = found(plugins, config)
    good, again = registry.plugin("good"), registry.plugin("again")
    assert good.folder == again.folder
    assert again.settings.config == {"a": 1}
    assert good.fingerprint != again.fingerprint


@pytest.mark.requirement("D-53")
def test_a_fingerprint_changes_with_the_settings_and_the_manifest_alone(plugins: Folder) -> None:
    before = found(plugins).plugin("good").fingerprint
    assert found(plugins).plugin("good").fingerprint == before
    (plugins.path / "plugins/good/run.sh").write_text("#!/bin/sh\nexit 0\n")
    changed = CONFIG.replace("good: {}", "good: {timeout: 5s}")
    assert found(plugins, changed).plugin("good").fingerprint == before
    changed = CONFIG.replace("good: {}", "good: {config: {a: 1}}")
    assert found(plugins, changed).plugin("good").fingerprint != before
    path = plugins.path / "plugins/good/manifest.yaml"
    path.write_text(path.read_text().replace("1.0.0", "1.0.1"))
    assert found(plugins).plugin("good").fingerprint != before


def test_a_disabled_plugin_and_an_unused_one_do_not_run(plugins: Folder) -> None:
    registry = found(plugins, "plugin_roots: [plugins]\nplugins: {good: {enabled: false}}\n")
    assert registry.plugins == {}
    assert list(registry.found) == ["good", "other"]
    assert "the plugin 'other' is not used; add plugins.other" in str(registry.warnings)


@pytest.mark.requirement("D-65", "D-73")
def test_a_plugin_has_the_usual_timeouts_unless_it_says_otherwise(plugins: Folder) -> None:
    config = """
        plugin_roots: [plugins]
        plugins:
          good: {}
          other: {timeouts: {poll: 300s}, timeout: 15s, retry: {max_attempts: 5, backoff_base: 60s}}
    """
    registry = found(plugins, config)
    good, other = registry.plugin("good"), registry.plugin("other")
    commands = ("poll", "handle", "health", "init", "sync")
    assert [good.timeout_s(command) for command in commands] == [60, 120, 10, 30, 120]
    assert [other.timeout_s(command) for command in commands] == [300, 15, 15, 15, 15]
    assert (other.settings.retry.max_attempts, other.settings.retry.backoff_base_s) == (5, 60)
    assert (good.settings.retry.max_attempts, good.settings.retry.backoff_base_s) == (4, 30)


def test_references_to_what_does_not_run_are_found_with_their_lines(plugins: Folder) -> None:
    plugins.write(
        config="""
        plugin_roots: [plugins]
        plugins:
          good:
            schedules: [{every: 5m, command: pol}]
          off: {uses: other, enabled: false}
        routes:
          - {from: godo, event_type: e, to: good}
          - {from: good, event_type: e, to: off}
        pipelines:
          - name: p
            on: e
            steps:
              - uses: good.handel
              - split: [{uses: nobody}]
        """
    )
    config = plugins.load()
    wrong, waiting = check_references(config, discover(config))
    faults = [str(each) for each in sorted([*wrong, *waiting])]
    assert [each.message for each in waiting] == ["the plugin 'off' is disabled"]
    assert [each.partition("config.yaml:")[2] for each in faults] == [
        "4: plugins.good.schedules[0]: the plugin 'good' has no command 'pol'; did you mean"
        " 'poll'?",
        "7: routes[0]: there is no plugin 'godo'; did you mean 'good'?",
        "8: routes[1]: the plugin 'off' is disabled",
        "13: pipelines[0].steps[0]: the plugin 'good' has no command 'handel'; did you mean"
        " 'handle'?",
        "14: pipelines[0].steps[1].split[0]: there is no plugin 'nobody'",
    ]
