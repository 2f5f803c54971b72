"""Manifests are validated whole: every fault with its file, line and path."""

from pathlib import Path

import pytest

from ackbus.automation.plugins.manifest import Manifest, read_manifest

from ..conftest import Folder

#: As the specification has it.
OF_THE_SPECIFICATION = """
    manifest_spec: ductile.plugin
    manifest_version: 1
    name: withings
    version: 1.0.0
    protocol: 2
    entrypoint: run.py
    description: "Reads scales"
    commands:
      poll:
        type: read
        description: "Reads the newest weights"
      sync: {type: write}
      oauth_callback:
      health: {type: read}
    config_keys:
      required: [client_id, client_secret]
      optional: [access_token]
"""

#: As PLUGIN_DEVELOPMENT and PLUGIN_FACTS of Ductile describe it.
OF_THE_PAGES = """
    manifest_spec: ductile.plugin
    manifest_version: 1
    name: sqlite_change
    version: 0.10
    protocol: 2
    entrypoint: ./bin/run.py
    concurrency_safe: false
    commands:
      - name: poll
        type: read
        idempotent: true
        retry_safe: true
        input_schema: {}
        output_schema:
          status: string
        values:
          consume: []
          emit:
            - event: data.changed
              values:
                - payload.result
      - name: token_refresh
    fact_outputs:
      - when:
          command: poll
        from: state_updates
        fact_type: sqlite_change.snapshot
        compatibility_view: mirror_object
    config_keys:
      required: [db_path]
      optional:
"""


def read(folder: Folder, text: str) -> Manifest:
    manifest, faults = read_manifest(folder.write_as("manifest.yaml", text))
    assert faults == []
    assert manifest is not None
    return manifest


def refused(folder: Folder, text: str) -> list[str]:
    path: Path = folder.write_as("manifest.yaml", text)
    manifest, faults = read_manifest(path)
    assert manifest is None
    return [str(fault).removeprefix(f"{path}:").removeprefix(f"{path}") for fault in faults]


@pytest.mark.requirement("D-56", "D-58", "D-59")
def test_a_manifest_of_the_specification_is_read(folder: Folder) -> None:
    manifest = read(folder, OF_THE_SPECIFICATION)
    assert (manifest.name, manifest.version, manifest.entrypoint) == ("withings", "1.0.0", "run.py")
    types = {name: command.type for name, command in manifest.commands.items()}
    expected = {"poll": "read", "sync": "write", "oauth_callback": "write", "health": "read"}
    assert types == expected
    assert manifest.config_keys.required == ("client_id", "client_secret")
    assert manifest.concurrency_safe


@pytest.mark.requirement("D-30", "D-56", "D-83", "R-10")
def test_a_manifest_of_the_pages_is_read(folder: Folder) -> None:
    manifest = read(folder, OF_THE_PAGES)
    assert manifest.version == "0.10"  # and not 0.1
    assert not manifest.concurrency_safe
    assert manifest.commands["poll"].retry_safe is True
    assert manifest.commands["token_refresh"].type == "write"
    assert [(rule.command, rule.fact_type) for rule in manifest.fact_outputs] == [
        ("poll", "sqlite_change.snapshot")
    ]
    assert manifest.config_keys.optional == ()


@pytest.mark.requirement("D-57")
@pytest.mark.parametrize(
    ("line", "instead", "told"),
    [
        (
            "manifest_spec: ductile.plugin",
            "manifest_spec: other",
            "1: manifest_spec: 'other' is not known; write 'ductile.plugin'",
        ),
        ("manifest_version: 1", "manifest_version: 2", "2: manifest_version: '2' is not known"),
        ("protocol: 2", "protocol: 3", "5: protocol: '3' is not known; write 2"),
        ("entrypoint: run.py", "entrypoint:", "6: entrypoint: 'entrypoint' is missing"),
        ("name: withings", "name: a b", "3: name: 'a b' has another form"),
        ("version: 1.0.0", "", "version: 'version' is missing"),
        ("type: read\n", "type: reed\n", "10: commands.poll.type: 'reed' is not known"),
        ("sync:", "sy nc:", "12: commands.sy nc.name: 'sy nc' has another form"),
        ("config_keys:", "config_key:", "15: config_key: 'config_key' is not a setting here; did"),
        ("optional: [access_token]", "optional: 5", "17: config_keys.optional: write a list"),
        ("name: withings", "name: withings\nname: again", "4: name: 'name' stands twice"),
    ],
)
def test_a_wrong_manifest_is_refused_at_its_line(
    folder: Folder, line: str, instead: str, told: str
) -> None:
    text = "\n".join(each.removeprefix("    ") for each in OF_THE_SPECIFICATION.splitlines())
    assert line in text
    found = refused(folder, text.replace(line, instead, 1))
    assert any(each.lstrip(": ").startswith(told) for each in found), found


@pytest.mark.parametrize(
    ("commands", "told"),
    [
        ("[{name: a}, {name: b}, {name: a, type: read}]", "commands[2]: 'a' stands twice"),
        ("{a: {type: read}, a: {type: write}}", "'a' stands twice"),
        ("{a: {name: b}, b: {type: read}}", "commands.a.name: this is another command's name"),
    ],
)
def test_a_command_that_is_listed_twice_is_refused(
    folder: Folder, commands: str, told: str
) -> None:
    text = (
        "manifest_spec: ductile.plugin\nmanifest_version: 1\nname: x\nversion: 1.0.0\n"
        f"protocol: 2\nentrypoint: run.sh\ncommands: {commands}\n"
    )
    assert any(told in each for each in refused(folder, text))


@pytest.mark.requirement("X-26", "R-09", "R-10")
def test_a_manifest_of_protocol_1_is_refused_with_the_form_of_today(folder: Folder) -> None:
    found = refused(
        folder,
        """
        name: old
        version: 1.0.0
        protocol: 1
        entrypoint: run.sh
        commands: [poll, handle]
        """,
    )
    text = "\n".join(found)
    assert "plugins of protocol 1 are not run; write protocol: 2" in text
    assert "5: commands[0]: write commands as a map: poll: {type: read}" in text
    assert "5: commands[1]: write commands as a map: handle: {type: read}" in text
    assert "manifest_spec: 'manifest_spec' is missing" in text


def test_all_faults_of_a_manifest_are_told_at_once(folder: Folder) -> None:
    found = refused(folder, "name: a b\nprotocol: 5\nnmae: x\ncommands: {}\n")
    assert len(found) >= 7


@pytest.mark.parametrize(
    ("facts", "told"),
    [
        ("{when: {command: nope}, from: state_updates, fact_type: x}", "'nope' is none of its"),
        ("{when: {command: poll}, from: result, fact_type: x}", "'result' is not known; write"),
        ("{when: {command: poll}, from: state_updates}", "'fact_type' is missing"),
        (
            "{when: {command: poll}, from: state_updates, fact_type: x, compatibility_view: y}",
            "'y' is not known; write 'mirror_object' or 'merge_object'",
        ),
    ],
)
@pytest.mark.requirement("D-83")
def test_a_wrong_rule_of_facts_is_refused(folder: Folder, facts: str, told: str) -> None:
    found = refused(folder, f"{OF_THE_SPECIFICATION.rstrip()}\n    fact_outputs: [{facts}]\n")
    assert [each for each in found if told in each], found


@pytest.mark.slow
def test_a_manifest_that_is_no_text_is_refused(folder: Folder) -> None:
    path = folder.write_as("manifest.yaml", "")
    path.write_bytes(b"name: \xff\n")
    assert read_manifest(path)[0] is None
    path.write_text("[" * 100_000)
    assert read_manifest(path)[0] is None
