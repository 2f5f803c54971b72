"""Tokens, scopes, webhooks and the API: who may come in, and that nothing wrong is taken."""

from typing import Any

import pytest
from blake3 import blake3

from ackbus.automation.config.models import Config

from ..conftest import Folder


def load(folder: Folder, config: str, **environ: str) -> Config:
    folder.write(config=config)
    return folder.load(environ)


def refused(folder: Folder, config: str, **environ: str) -> list[str]:
    folder.write(config=config)
    return [told.removeprefix("config.yaml:") for told in folder.told(**environ)]


@pytest.mark.requirement("D-118")
def test_a_token_has_its_key_from_a_variable(folder: Folder) -> None:
    config = load(folder, "tokens: [{name: a, key: '${A}', description: x}]\n", A="0123")
    (token,) = config.tokens
    assert (token.name, token.key.reveal(), token.scopes) == ("a", "0123", ())
    assert "0123" not in repr(config)


@pytest.mark.requirement("D-118")
def test_a_key_that_is_written_out_is_refused(folder: Folder) -> None:
    found = refused(folder, "tokens:\n  - name: a\n    key: plain-secret\n")
    assert found == [
        "3: tokens[0].key: a key is never written here; write key: ${NAME}, and define that"
        " variable"
    ]


@pytest.mark.requirement("D-119", "D-120")
@pytest.mark.parametrize(
    ("held", "scopes"),
    [
        ('{"scopes": ["plugin:ro", "jobs:rw"]}', ("plugin:ro", "jobs:rw")),
        ('["events:ro", "events:rw", "jobs:ro", "plugin:rw", "*"]', None),
    ],
)
def test_a_scope_file_is_taken_with_its_hash(
    folder: Folder, held: str, scopes: tuple[str, ...] | None
) -> None:
    folder.write_as("scopes/a.json", held)
    hash = blake3(held.encode()).hexdigest()
    text = f"{{name: a, key: '${{A}}', scopes_file: scopes/a.json, scopes_hash: 'blake3:{hash}'}}"
    folder.write(config=f"tokens: [{text}]\n")
    folder.lock()
    (token,) = folder.load({"A": "x"}).tokens
    assert token.scopes == (scopes or token.scopes)
    assert len(token.scopes) == (2 if scopes else 5)


@pytest.mark.requirement("D-119", "D-120")
@pytest.mark.parametrize(
    ("held", "told"),
    [
        ('{"scopes": ["plugins:ro"]}', "the scope 'plugins:ro' is not known; write plugin:ro,"),
        ('{"scopes": ["read:jobs"]}', "the scope 'read:jobs' is not known; write plugin:ro,"),
        ('{"scopes": []}', 'has no scopes; write {"scopes": ["…"]}'),
        ("{", "is no JSON"),
        ("5", "has no scopes"),
    ],
)
def test_a_wrong_scope_file_is_refused(folder: Folder, held: str, told: str) -> None:
    folder.write_as("scopes/a.json", held)
    folder.write(config="tokens: [{name: a, key: '${A}', scopes_file: scopes/a.json}]\n")
    folder.lock()
    assert told in folder.told(A="x")[0]


@pytest.mark.requirement("D-119")
def test_a_scope_file_that_was_edited_is_refused_by_its_hash(folder: Folder) -> None:
    folder.write_as("scopes/a.json", '["*"]')
    text = "scopes_file: scopes/a.json, scopes_hash: blake3:a3f8c2d9"
    folder.write(config=f"tokens: [{{name: a, key: '${{A}}', {text}}}]\n")
    folder.lock()
    (told,) = folder.told(A="x")
    hash = blake3(b'["*"]').hexdigest()
    assert told.endswith(f"is not the one that this hash is of; it has blake3:{hash}")


def test_a_missing_scope_file_is_refused(folder: Folder) -> None:
    (told,) = refused(folder, "tokens: [{name: a, key: '${A}', scopes_file: a.json}]\n", A="x")
    assert told == "1: tokens[0].scopes_file: can't read a.json: No such file or directory"


WEBHOOK = """
    webhooks:
      listen: 127.0.0.1:8081
      endpoints:
        - path: /hook/github
          plugin: github-handler
          secret_ref: github
          signature_header: X-Hub-Signature-256
          max_body_size: 2MB
    tokens: [{name: github, key: "${GH}"}]
"""


@pytest.mark.requirement("D-123", "D-128")
def test_a_webhook_has_its_secret_from_the_tokens(folder: Folder) -> None:
    webhooks = load(folder, WEBHOOK, GH="s3").webhooks
    assert webhooks is not None
    (endpoint,) = webhooks.endpoints
    assert (endpoint.path, endpoint.plugin) == ("/hook/github", "github-handler")
    assert endpoint.secret.reveal() == "s3"
    assert endpoint.max_body_bytes == 2 << 20
    assert (webhooks.listen, endpoint.signature_header) == ("127.0.0.1:8081", "X-Hub-Signature-256")


@pytest.mark.requirement("D-123", "D-127")
def test_a_webhook_takes_a_megabyte_unless_it_says_otherwise(folder: Folder) -> None:
    webhooks = load(folder, WEBHOOK.replace("max_body_size: 2MB", "name: x"), GH="s").webhooks
    assert webhooks is not None
    assert webhooks.endpoints[0].max_body_bytes == 1 << 20


@pytest.mark.parametrize(
    ("line", "instead", "told"),
    [
        (
            "secret_ref: github",
            "secret_ref: gihub",
            "6: webhooks.endpoints[0].secret_ref: there is no token 'gihub'; did you mean"
            " 'github'?; define it in tokens",
        ),
        (
            "secret_ref: github",
            "",
            "4: webhooks.endpoints[0].secret_ref: 'secret_ref' is missing",
        ),
        (
            "secret_ref: github",
            'secret: "${GH}"',
            "6: webhooks.endpoints[0].secret: 'secret' is not a setting here: write secret_ref:"
            " NAME, and the secret itself under that name in tokens",
        ),
        (
            "signature_header: X-Hub-Signature-256",
            "",
            "4: webhooks.endpoints[0].signature_header: 'signature_header' is missing",
        ),
        ("path: /hook/github", "path: hook", "4: webhooks.endpoints[0].path: 'hook' has another"),
        ("path: /hook/github", "path: /healthz", "4: webhooks.endpoints[0].path: the path /heal"),
        ("max_body_size: 2MB", "max_body_size: 2XB", "8: webhooks.endpoints[0].max_body_size: '2X"),
        ("listen: 127.0.0.1:8081", "listen: here", "2: webhooks.listen: 'here' is no address; w"),
        ("listen:", "lisen:", "2: webhooks.lisen: 'lisen' is not a setting here; did you mean 'l"),
    ],
)
@pytest.mark.requirement("D-124", "D-128", "R-13", "X-26")
def test_a_wrong_webhook_refuses_the_start(
    folder: Folder, line: str, instead: str, told: str
) -> None:
    assert line in WEBHOOK
    found = refused(folder, WEBHOOK.replace(line, instead), GH="s")
    assert any(each.startswith(told) for each in found), found


def test_a_path_of_a_webhook_is_taken_once(folder: Folder) -> None:
    again = "{path: /hook/github, plugin: a, secret_ref: github, signature_header: X-A}"
    text = WEBHOOK.replace("          max_body_size: 2MB", f"        - {again}")
    (told,) = refused(folder, text, GH="s")
    assert "the path /hook/github is taken" in told


@pytest.mark.requirement("D-111", "D-121")
def test_the_api_is_off_unless_it_is_enabled(folder: Folder) -> None:
    assert load(folder, "service: {}\n").api is None
    api = load(folder, "api: {max_concurrent_sync: 3, max_sync_timeout: 2m}\n").api
    assert api is not None
    assert (api.enabled, api.listen) == (False, "127.0.0.1:8080")
    assert (api.max_concurrent_sync, api.max_sync_timeout_s) == (3, 120)


API: Any = """
    api:
      enabled: true
      listen: localhost:8080
      auth:
        tokens:
          - token: "${T}"
            scopes: ["plugin:ro"]
"""


@pytest.mark.requirement("D-111")
def test_the_api_has_tokens_of_its_own(folder: Folder) -> None:
    config = load(folder, API, T="t")
    (token,) = config.tokens
    assert (token.key.reveal(), token.scopes, config.warnings[:-1]) == ("t", ("plugin:ro",), ())
    config = load(folder, API.replace("${T}", "written-out"))
    assert "a token stands here for all to read; write token: ${NAME}" in str(config.warnings)


@pytest.mark.requirement("X-17", "D-111")
@pytest.mark.parametrize("listen", ["0.0.0.0:8080", "192.168.0.1:80", "[::]:8080", ":8080", "h:1"])
def test_an_open_api_listens_on_this_machine_alone(folder: Folder, listen: str) -> None:
    (told,) = refused(folder, f"api: {{enabled: true, listen: '{listen}'}}\n")
    assert "asks for a token with scopes" in told
    for local in ("localhost:1", "127.0.0.1:8080", "[::1]:80", "127.0.0.9:1"):
        load(folder, f"api: {{enabled: true, listen: '{local}'}}\n")


def test_an_api_without_tokens_is_refused_where_they_are_asked_for(folder: Folder) -> None:
    text = "api: {enabled: true}\nservice: {admission: {require_api_auth: true}}\n"
    assert refused(folder, text) == ["1: api: service.admission asks for a token with scopes"]


@pytest.mark.requirement("X-26")
def test_the_old_key_of_the_api_is_refused_with_the_form_of_today(folder: Folder) -> None:
    (told,) = refused(folder, "api: {auth: {api_key: x}}\n")
    assert "'api_key' is not a setting here: write api.auth.tokens:" in told
