"""The seal: tokens, webhooks and scopes as they were sealed, or no start."""

import errno
import os
import stat
from pathlib import Path

import pytest
from blake3 import blake3

from ackbus.automation.active_config import from_seal
from ackbus.automation.config.load import TO_LOOK, Demands, load
from ackbus.automation.config.values import EX_CONFIG, ConfigFaults

from ..conftest import Folder

ASK = "in .checksums; look at what changed, then seal it by 'bus config lock'"


@pytest.fixture
def sealed(folder: Folder) -> Folder:
    """A folder with tokens, webhooks and scopes, sealed."""
    folder.write(
        config="include: [tokens.yaml, webhooks.yaml, routes.yaml]\n",
        tokens="""
            tokens:
              - {name: hook, key: "${HOOK}"}
              - {name: admin, key: "${ADMIN}", scopes_file: scopes/admin.json}
        """,
        webhooks="""
            webhooks:
              endpoints:
                - {path: /hook, plugin: echo, secret_ref: hook, signature_header: X-Signature}
        """,
        routes="routes: []\n",
    )
    folder.write_as("scopes/admin.json", '{"scopes": ["*"]}')
    folder.lock()
    return folder


ENVIRON = {"HOOK": "hook-secret", "ADMIN": "admin-secret"}


def test_a_sealed_folder_is_taken_without_a_warning(sealed: Folder) -> None:
    config = sealed.load(ENVIRON)
    assert config.warnings == ()
    assert [token.scopes for token in config.tokens] == [(), ("*",)]


@pytest.mark.parametrize("name", ["admin.json", "scopes/a/admin.json", "../admin.json"])
@pytest.mark.requirement("D-119")
def test_scopes_are_sealed_wherever_a_token_has_them(sealed: Folder, name: str) -> None:
    tokens = (sealed.path / "tokens.yaml").read_text()
    sealed.write_as("tokens.yaml", tokens.replace("scopes/admin.json", name))
    sealed.write_as(name, '{"scopes": ["jobs:ro"]}')
    sealed.lock()
    config = sealed.load(ENVIRON)
    assert [token.scopes for token in config.tokens] == [(), ("jobs:ro",)]
    sealed.write_as(name, '{"scopes": ["*"]}')
    (found,) = sealed.told(**ENVIRON)
    assert "admin.json: this file is not as it was sealed" in found


@pytest.mark.parametrize("name", ["gone.json", "scopes", ".", "''", "[a]", "{a: b}", '"a\\0b"'])
def test_a_seal_has_no_scopes_that_are_no_file(sealed: Folder, name: str) -> None:
    tokens = (sealed.path / "tokens.yaml").read_text()
    sealed.write_as("tokens.yaml", tokens.replace("scopes/admin.json", name))
    sealed.lock()
    assert [told for told in sealed.told(**ENVIRON) if ".checksums" in told] == []


@pytest.mark.parametrize("name", ["tokens.yaml", "webhooks.yaml", "scopes/admin.json"])
def test_d_151_tampered_tokens_refuse_the_start(sealed: Folder, name: str) -> None:
    path = sealed.path / name
    path.write_text(path.read_text() + "\n")
    assert sealed.told(**ENVIRON) == [f"{name}: this file is not as it was sealed {ASK}"]
    with pytest.raises(ConfigFaults) as refused:
        sealed.load(ENVIRON)
    assert refused.value.exit_code == EX_CONFIG == 78


@pytest.mark.requirement("D-134")
@pytest.mark.parametrize("name", ["config.yaml", "tokens.yaml", "routes.yaml"])
def test_what_is_no_yaml_is_named_and_no_change_of_who_comes_in(sealed: Folder, name: str) -> None:
    sealed.write_as(name, (sealed.path / name).read_text() + "x: [\n")
    told = [each for each in sealed.told(**ENVIRON) if "this file is not as it was" not in each]
    assert told[0].startswith(f"{name}:")
    assert [each for each in told if "tokens, scopes or webhooks" in each] == []


@pytest.mark.parametrize("name", ["config.yaml", "routes.yaml"])
def test_d_151_tampered_routes_are_warned_of(sealed: Folder, name: str) -> None:
    path = sealed.path / name
    path.write_text(path.read_text() + "# changed\n")
    (warning,) = sealed.load(ENVIRON).warnings
    assert str(warning) == f"{path}: this file is not as it was sealed {ASK}"


@pytest.mark.requirement("D-151")
@pytest.mark.parametrize("service", ["strict_mode: true", "admission: {fail_on_drift: true}"])
def test_tampered_routes_refuse_the_start_where_the_configuration_asks_for_it(
    sealed: Folder, service: str
) -> None:
    path = sealed.path / "config.yaml"
    path.write_text(path.read_text() + f"service: {{{service}}}\n")
    sealed.lock()
    sealed.load(ENVIRON)
    sealed.write(routes="routes:\n")
    assert sealed.told(**ENVIRON) == [f"routes.yaml: this file is not as it was sealed {ASK}"]


@pytest.mark.requirement("D-151")
def test_a_folder_without_a_seal_is_taken_where_it_has_no_tokens(sealed: Folder) -> None:
    (sealed.path / ".checksums").unlink()
    names = ["scopes/admin.json", "tokens.yaml", "webhooks.yaml"]
    assert sealed.told(**ENVIRON) == [f"{name}: this file is not sealed {ASK}" for name in names]
    sealed.write(config="include: [routes.yaml]\n")
    (warning,) = sealed.load().warnings
    assert "the files here are not sealed" in warning.message


@pytest.mark.requirement("D-151")
def test_tokens_under_another_name_are_sealed_too(folder: Folder) -> None:
    folder.write(config="include: [keys.yaml]\n", keys="tokens: [{name: a, key: '${A}'}]\n")
    assert folder.told(A="x") == [f"keys.yaml: this file is not sealed {ASK}"]


@pytest.mark.requirement("D-151")
def test_a_seal_of_ductile_is_read(sealed: Folder) -> None:
    """Its form: version 2, hashes in hex by absolute path."""
    names = ["config.yaml", "tokens.yaml", "webhooks.yaml", "routes.yaml", "scopes/admin.json"]
    paths = [sealed.path / name for name in names]
    hashes = [f"  {path}: {blake3(path.read_bytes()).hexdigest()}\n" for path in paths]
    head = 'version: 2\ngenerated_at: "2026-02-25T10:00:00Z"\nhashes:\n'
    (sealed.path / ".checksums").write_text(head + "".join(hashes))
    assert sealed.load(ENVIRON).warnings == ()


@pytest.mark.requirement("D-151")
def test_a_moved_folder_is_not_sealed(sealed: Folder, tmp_path: Path) -> None:
    moved = Folder(sealed.path.rename(tmp_path / "moved"))
    assert f"tokens.yaml: this file is not sealed {ASK}" in moved.told(**ENVIRON)


@pytest.mark.parametrize("text", ["version: 1\nhashes: {}\n", "version: 2\nhashes: []\n", "a: [\n"])
def test_a_broken_seal_is_refused(folder: Folder, text: str) -> None:
    folder.write(config="service: {}\n")
    (folder.path / ".checksums").write_text(text)
    assert folder.told()[0].startswith(".checksums")


@pytest.mark.requirement("D-153")
def test_the_seal_is_its_owners_alone(sealed: Folder) -> None:
    assert stat.S_IMODE(os.stat(sealed.path / ".checksums").st_mode) == 0o600
    assert [each.name for each in sealed.path.glob(".checksums*")] == [".checksums"]


@pytest.mark.parametrize("at", ["fsync", "replace"])
def test_a_seal_that_can_not_be_written_leaves_the_earlier_one(
    sealed: Folder, monkeypatch: pytest.MonkeyPatch, at: str
) -> None:
    before = (sealed.path / ".checksums").read_bytes()

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, at, full)
    with pytest.raises(OSError, match="No space left"):
        sealed.lock()
    assert (sealed.path / ".checksums").read_bytes() == before
    assert [each.name for each in sealed.path.glob(".checksums*")] == [".checksums"]


# Tokens and webhooks in config.yaml itself.

WHOLE = """
include: [more.yaml]
service: {max_workers: 2}
api: {enabled: false, auth: {tokens: [{secret_ref: hook, scopes: [jobs:ro]}]}}
tokens: [{name: hook, key: "${HOOK}"}]
webhooks:
  endpoints: [{path: /hook, plugin: echo, secret_ref: hook, signature_header: X-S}]
"""
MORE = "routes: []\n"
CHANGED = f"its tokens, scopes or webhooks are not as they were sealed {ASK}"


@pytest.fixture
def whole(folder: Folder) -> Folder:
    folder.write_as("config.yaml", WHOLE)
    folder.write_as("more.yaml", MORE)
    folder.lock()
    return folder


@pytest.mark.requirement("D-151")
@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("scopes: [jobs:ro]", "scopes: ['*']"),
        ("scopes: [jobs:ro]}", "scopes: [jobs:ro]}, {token: '${HOOK}', scopes: ['*']}"),
        ('key: "${HOOK}"', 'key: "${ADMIN}"'),
        (
            '[{name: hook, key: "${HOOK}"}]',
            '[{name: hook, key: "${HOOK}"}, {name: b, key: "${HOOK}"}]',
        ),
        ("path: /hook", "path: /other"),
        ("plugin: echo", "plugin: other"),
        ("X-S}", "X-S, max_body_size: 9MB}"),
        ("[{path", "[{path: /b, plugin: echo, secret_ref: hook, signature_header: X-S}, {path"),
        (", auth: {tokens: [{secret_ref: hook, scopes: [jobs:ro]}]}", ""),
    ],
)
def test_a_change_of_who_may_come_in_refuses_the_start(whole: Folder, old: str, new: str) -> None:
    assert WHOLE.count(old) == 1
    whole.write_as("config.yaml", WHOLE.replace(old, new))
    assert whole.told(**ENVIRON) == [f"config.yaml: {CHANGED}"]
    config = load(whole.path, environ=ENVIRON, demands=Demands(seal=False))
    assert CHANGED in str(config.warnings)


@pytest.mark.requirement("D-151")
@pytest.mark.parametrize("text", [WHOLE + "# more\n", WHOLE.replace("workers: 2", "workers: 3")])
def test_another_change_of_the_same_file_warns(whole: Folder, text: str) -> None:
    whole.write_as("config.yaml", text)
    (warning,) = whole.load(ENVIRON).warnings
    assert str(warning).endswith(f"config.yaml: this file is not as it was sealed {ASK}")


def test_an_included_file_that_says_more_of_it_refuses_the_start(whole: Folder) -> None:
    text = "api: {auth: {tokens: [{token: '${HOOK}', scopes: ['*']}]}}\n"
    whole.write_as("more.yaml", MORE + text)
    assert f"config.yaml: {CHANGED}" in whole.told(**ENVIRON)


@pytest.mark.requirement("D-151")
def test_a_seal_that_does_not_know_of_them_counts_for_the_whole_file(whole: Folder) -> None:
    """One of Ductile's, or of an earlier version."""
    seal = whole.path / ".checksums"
    lines = seal.read_text().splitlines(keepends=True)
    seal.write_text("".join(line for line in lines if "#access" not in line))
    assert from_seal(whole.path) == []
    assert whole.load(ENVIRON).warnings == ()
    whole.write_as("config.yaml", WHOLE + "# more\n")
    assert whole.told(**ENVIRON) == [f"config.yaml: {CHANGED}"]


def test_what_differs_from_the_seal_is_told_of_both(whole: Folder) -> None:
    whole.write_as("config.yaml", WHOLE.replace("plugin: echo", "plugin: other"))
    root = str(whole.path / "config.yaml")
    found = [(each.file, each.state) for each in from_seal(whole.path)]
    assert found == [(root, "changed"), (root + "#access", "changed")]


@pytest.mark.parametrize("secret", ["a\n", "\na", "a\r\n", "a\nb\n"])
def test_a_secret_that_kept_the_line_end_of_its_file_is_refused(whole: Folder, secret: str) -> None:
    told = whole.told(HOOK=secret)
    assert told == [
        "config.yaml:4: tokens[0].key: it begins or ends with a line break; leave that out, as"
        " NAME=$(cat FILE) does"
    ]


def test_looking_asks_for_no_secret(whole: Folder) -> None:
    text = WHOLE.replace("X-S}", "X-S, signature_format: standard}").replace("X-S", "a-signature")
    whole.write_as("config.yaml", text)
    config = load(whole.path, environ={}, demands=TO_LOOK)
    assert config.webhooks is not None
    assert config.webhooks.endpoints[0].secret.reveal() == ""
