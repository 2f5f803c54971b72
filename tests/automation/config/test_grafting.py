"""Files of a configuration: which are read, in which order, and how they become one."""

import os
from pathlib import Path

import pytest

from ..conftest import Folder


@pytest.mark.requirement("D-148")
def test_a_file_that_nobody_includes_is_not_read(folder: Folder) -> None:
    folder.write(config="include: [a.yaml]\n", a="plugins: {one: {}}\n", b="plugins: {two: {}}\n")
    config = folder.load()
    assert list(config.plugins) == ["one"]
    assert [Path(path).name for path in config.files] == ["config.yaml", "a.yaml"]


@pytest.mark.requirement("D-150")
def test_later_files_win_maps_merge_and_lists_append(folder: Folder) -> None:
    folder.write(
        config="""
            include: [one.yaml, two.yaml]
            service: {name: first, log_level: debug}
            plugins:
              echo: {config: {kept: 1, changed: 1}, schedules: [{id: a, every: 5m}]}
            routes: [{from: echo, event_type: a, to: echo}]
        """,
        one="""
            service: {name: second}
            plugins:
              echo: {config: {changed: 2}, schedules: [{id: b, every: 6m}]}
            routes: [{from: echo, event_type: b, to: echo}]
        """,
        two="""
            service: {name: third}
            plugins: {more: {}}
            routes: [{from: more, event_type: c, to: echo}]
        """,
    )
    config = folder.load()
    assert (config.service.name, config.service.log_level) == ("third", "debug")
    echo = config.plugins["echo"]
    assert echo.config == {"kept": 1, "changed": 2}
    assert [each.id for each in echo.schedules] == ["a", "b"]
    assert [each.event_type for each in config.routes] == ["a", "b", "c"]
    assert list(config.plugins) == ["echo", "more"]


def test_an_empty_section_of_a_later_file_takes_nothing_away(folder: Folder) -> None:
    folder.write(config="include: [a.yaml]\nplugins: {one: {}}\n", a="plugins:\nroutes:\n")
    assert list(folder.load().plugins) == ["one"]


def test_settings_of_two_kinds_are_refused_with_both_places(folder: Folder) -> None:
    folder.write(config="include: [a.yaml]\nplugins: {one: {}}\n", a="\nplugins: [one]\n")
    assert folder.told() == [
        "a.yaml:1: plugins: this is a list, but a map at"
        f" {folder.path}/config.yaml:2; write it in one form".replace(f"{folder.path}/", "")
    ]


@pytest.mark.requirement("D-148", "D-150")
def test_a_folder_that_is_included_is_read_in_the_order_of_names(folder: Folder) -> None:
    folder.write(
        config="include: [parts]\n",
        parts__b="service: {name: b}\n",
        parts__a="service: {name: a}\n",
        parts__deeper__c="service: {name: c}\n",
    )
    folder.write_as("parts/z.json", "{}")
    folder.write_as("parts/z.yml", "service: {name: z}\n")
    config = folder.load()
    assert config.service.name == "b"
    assert "z.yml is not read; name it z.yaml" in str(config.warnings)


def test_included_files_include_others_after_themselves(folder: Folder) -> None:
    folder.write(
        config="include: [sub/a.yaml, c.yaml]\nservice: {name: root}\n",
        sub__a="include: [b.yaml]\nservice: {name: a}\n",
        sub__b="service: {name: b}\n",
        c="service: {log_level: warn}\n",
    )
    config = folder.load()
    names = [os.path.relpath(path, folder.path) for path in config.files]
    assert names == ["config.yaml", "sub/a.yaml", "sub/b.yaml", "c.yaml"]
    assert (config.service.name, config.service.log_level) == ("b", "warn")


@pytest.mark.parametrize(
    ("files", "told"),
    [
        (
            {"config": "include: [nope.yaml]\n", "node": ""},
            "config.yaml:1: include[0]: there is no nope.yaml; did you mean 'node.yaml'?",
        ),
        (
            {"config": "include:\n  - a.yaml\n", "a": "include: [config.yaml]\n"},
            "a.yaml:1: include[0]: config.yaml includes itself by this",
        ),
        (
            {"config": "include:\n  - a.yaml\n  - a.yaml\n", "a": ""},
            "config.yaml:3: include[1]: a.yaml is included already, at config.yaml:2",
        ),
        (
            {"config": "include: a.yaml\n", "a": ""},
            "config.yaml:1: include: write a list of paths: include: [FILE]",
        ),
        (
            {"config": "include: [{a: b}]\n"},
            "config.yaml:1: include: write the path of a file or a folder",
        ),
        (
            {"config": "include: ['${HOME}/a.yaml']\n"},
            "config.yaml:1: include: a path of a file has no variables, so that what is read can be"
            " verified; write it out",
        ),
    ],
)
@pytest.mark.requirement("D-152")
def test_a_wrong_include_is_refused_at_its_line(
    folder: Folder, files: dict[str, str], told: str
) -> None:
    folder.write(**files)
    assert folder.told(HOME="/root") == [told]


def test_what_is_no_readable_text_is_refused(folder: Folder) -> None:
    folder.write(config="include: [binary.yaml, pipe.yaml, bom.yaml]\n", bom="\ufeffservice: {}\n")
    (folder.path / "binary.yaml").write_bytes(b"a: \xff\n")
    os.mkfifo(folder.path / "pipe.yaml")
    assert folder.told() == [
        "bom.yaml:1: a byte order mark begins it; leave it out",
        "config.yaml:1: include[0]: can't read binary.yaml: byte 3 is no UTF-8",
        "config.yaml:1: include[1]: can't read pipe.yaml: it is not a file",
    ]


def test_a_folder_without_its_first_file_is_refused(folder: Folder) -> None:
    (told,) = folder.told()
    assert told.startswith("config.yaml: there is no such file; 'bus automation init ")


def test_a_configuration_may_be_one_file_of_another_name(folder: Folder) -> None:
    path = folder.write_as("mine.yaml", "service: {name: mine}\nstate: {path: data/x.db}\n")
    mine = Folder.__new__(Folder)
    mine.path = path
    config = mine.load()
    assert config.service.name == "mine"
    assert config.state.path == str(folder.path / "data/x.db")


@pytest.mark.requirement("D-81")
@pytest.mark.parametrize("allowed", [False, True])
def test_a_symlink_in_the_configuration_needs_the_setting_and_is_warned_of(
    folder: Folder, allowed: bool
) -> None:
    setting = f"service: {{allow_symlinks: {str(allowed).lower()}}}\n"
    folder.write(config=f"include: [a.yaml]\n{setting}", real="plugins: {one: {}}\n")
    (folder.path / "a.yaml").symlink_to("real.yaml")
    if allowed:
        assert "a.yaml is a symlink" in str(folder.load().warnings)
    else:
        told = "config.yaml:1: a.yaml is a symlink; name the file itself, or set"
        assert folder.told() == [f"{told} service.allow_symlinks: true"]


@pytest.mark.requirement("D-149")
def test_roots_are_taken_in_order_and_once(folder: Folder) -> None:
    (folder.path / "plugins").mkdir()
    (folder.path / "more").mkdir()
    folder.write(config="plugin_roots: [./plugins, more, plugins, ./more/]\n")
    assert folder.load().plugin_roots == (folder.path / "plugins", folder.path / "more")
