"""The shown form of a configuration: no secret, whatever setting it came through."""

import json

import pytest

from ackbus.automation.config.redaction import REDACTED, is_secret_key, shown

from ..conftest import Folder

ENVIRON = {"HOOK": "hook-secret", "CID": "client-4711", "PIN": "4711", "T": "the-token"}


@pytest.fixture
def view(folder: Folder) -> dict[str, object]:
    """A configuration with secrets in all places, as it is shown."""
    folder.write(
        config="""
            api: {auth: {tokens: [{token: "${T}", scopes: ["*"]}, {token: plain-1, scopes: ["*"]}]}}
            tokens: [{name: hook, key: "${HOOK}"}]
            webhooks:
              endpoints:
                - {path: /h, plugin: echo, secret_ref: hook, signature_header: X-Signature}
            plugins:
              echo:
                schedules: [{every: 5m, payload: {password: plain-2, city: Sydney}}]
                config:
                  client_id: ${CID}
                  url: https://example.org/${CID}/feed
                  pin: ${PIN}
                  api_key: plain-3
                  nested: [{auth_token: plain-4, label: shown}]
                  github_token_env: NAME_OF_IT
              feed: {config: {headers: {Authorization: Bearer plain-5, Accept: text/html}}}
              notify: {config: {authorization: Basic plain-6}}
        """
    )
    return shown(folder.load(ENVIRON))


@pytest.mark.requirement("D-154")
def test_d_154_no_secret_is_shown(view: dict[str, object]) -> None:
    text = json.dumps(view)
    for secret in (
        *ENVIRON.values(),
        "plain-1",
        "plain-2",
        "plain-3",
        "plain-4",
        "plain-5",
        "plain-6",
    ):
        assert secret not in text, secret


def test_what_came_from_a_variable_shows_the_variable(view: dict[str, dict[str, dict]]) -> None:  # type: ignore[type-arg]
    config = view["plugins"]["echo"]["config"]
    assert config == {
        "client_id": "${CID}",
        "url": "https://example.org/${CID}/feed",
        "pin": "${PIN}",
        "api_key": REDACTED,
        "nested": [{"auth_token": REDACTED, "label": "shown"}],
        "github_token_env": "NAME_OF_IT",
    }
    assert view["plugins"]["echo"]["schedules"][0]["payload"]["city"] == "Sydney"
    assert view["plugins"]["feed"]["config"]["headers"]["Accept"] == "text/html"
    assert view["service"]["admission"]["require_api_auth"] is False


@pytest.mark.parametrize(
    ("name", "is_secret"),
    [
        *(
            (name, True)
            for name in ("api_key", "apiKey", "client_secret", "PASSWORD", "auth.token")
        ),
        *((name, True) for name in ("authorization", "Authorization", "Proxy-Authorization")),
        *((name, True) for name in ("key", "private_pem", "access_token", "webhook_url", "dsn")),
        *((name, False) for name in ("keyboard", "monkey", "secret_ref", "signature_header")),
        *((name, False) for name in ("author_name", "github_token_env", "tokens_file", "key_id")),
        *((name, False) for name in ("authors", "authorized_users")),
    ],
)
def test_secrets_are_known_by_the_names_of_their_settings(name: str, is_secret: bool) -> None:
    assert is_secret_key(name) is is_secret
