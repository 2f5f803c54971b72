"""The settings of webhooks that are ours: each is taken, and each wrong one has its place."""

import json
from typing import Any

import pytest

from ackbus.automation.config.models import WebhookEndpoint
from ackbus.automation.config.redaction import shown
from ackbus.automation.config.values import PartOf, Rate

from ..conftest import Folder

STANDARD = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"


def write(folder: Folder, *settings: str) -> None:
    lines = "\n".join(f"          {setting}" for setting in settings)
    folder.write(
        config=f"""
    tokens: [{{name: a, key: "${{A}}"}}, {{name: b, key: "${{B}}"}}]
    webhooks:
      endpoints:
        - path: /hook/a
          secret_ref: a
{lines}
"""
    )


def taken(folder: Folder, *settings: str, **environ: str) -> WebhookEndpoint:
    write(folder, *settings)
    webhooks = folder.load({"A": "s1", "B": "s2"} | environ).webhooks
    assert webhooks is not None
    return webhooks.endpoints[0]


def told(folder: Folder, *settings: str, **environ: str) -> list[str]:
    write(folder, *settings)
    return folder.told(**{"A": "s1", "B": "s2"} | environ)


def test_all_settings_of_a_webhook_are_taken(folder: Folder) -> None:
    found = taken(
        folder,
        "name: mine",
        "event_type: shop",
        "event_type_from: header:X-Topic",
        "signature_header: svix-signature",
        "signature_format: standard",
        "previous_secret_ref: b",
        "replay_window: 90s",
        "delivery_id: body:id",
        "rate_limit: 60/m",
        A=STANDARD,
        B=STANDARD.removeprefix("whsec_"),
    )
    assert (found.name, found.target) == ("mine", "event shop.<header:X-Topic>")
    assert (found.event_type_from, found.delivery_id) == (
        PartOf("header", "X-Topic"),
        PartOf("body", "id"),
    )
    assert (found.rate, found.replay_window_s) == (Rate(60, 60.0), 90.0)
    assert found.previous_secret is not None
    assert "s2" not in repr(found)


def test_a_webhook_is_a_job_a_run_or_an_event(folder: Folder) -> None:
    header = "signature_header: X-S"
    assert taken(folder, header, "plugin: p").target == "p.handle"
    assert taken(folder, header, "plugin: p", "command: sync").target == "p.sync"
    assert taken(folder, header, "pipeline: r").target == "pipeline r"
    assert taken(folder, header, "event_type_from: body:type").target == "event <body:type>"


@pytest.mark.parametrize(
    ("settings", "place", "why"),
    [
        ([], "", "'plugin' is missing; write plugin: NAME, pipeline: NAME or event_type: TYPE"),
        (["plugin: p", "pipeline: r"], ".pipeline", "write plugin or pipeline, not both"),
        (["pipeline: r", "event_type: t"], ".pipeline", "a pipeline has the type of its `on`"),
        (["pipeline: r", "command: c"], ".command", "command is of a plugin"),
        (["plugin: p", "replay_window: 5m"], ".replay_window", "a plain signature signs no time"),
        (["plugin: p", "rate_limit: 0/s"], ".rate_limit", "'0/s' is no rate; write one such as"),
        (["plugin: p", "rate_limit: 10"], ".rate_limit", "'10' is no rate"),
        (["plugin: p", "delivery_id: X-Id"], ".delivery_id", "'X-Id' is no part of a request"),
        (["plugin: p", "delivery_id: header:a b"], ".delivery_id", "is no part of a request"),
        (
            ["plugin: p", "signature_format: stripe", "delivery_id: header:X-Id"],
            ".delivery_id",
            "a header is not signed, so that a request could be repeated under another id",
        ),
        (["plugin: p", "previous_secret_ref: c"], ".previous_secret_ref", "there is no token 'c'"),
        (["plugin: p", "max_body_size: 1GB"], ".max_body_size", "write at most 67108864"),
        (["plugin: p", "signature_format: sha1"], ".signature_format", "'sha1' is not known"),
        (
            ["plugin: p", "signature_format: standard"],
            ".signature_header",
            "'X-S' does not end in -signature",
        ),
        (
            ["plugin: p", "signature_format: stripe", "signature_prefix: v0="],
            ".signature_prefix",
            "this signature_format has no prefix",
        ),
    ],
)
def test_a_wrong_setting_of_a_webhook_is_named(
    folder: Folder, settings: list[str], place: str, why: str
) -> None:
    found = told(folder, "signature_header: X-S", *settings)
    assert any(f"webhooks.endpoints[0]{place}: " in each and why in each for each in found), found


@pytest.mark.parametrize("secret", ["whsec_", "whsec_é", "whsec_a b", "whsec_***"])
def test_a_secret_that_is_no_key_is_refused_and_not_repeated(folder: Folder, secret: str) -> None:
    settings = ("plugin: p", "signature_header: x-signature", "signature_format: standard")
    (line,) = told(folder, *settings, A=secret)
    assert "secret_ref: a secret of the standard form is whsec_ and base64; that of the" in line
    assert secret == "whsec_" or secret not in line


def test_no_secret_of_a_webhook_is_shown(folder: Folder) -> None:
    write(folder, "plugin: p", "signature_header: X-S", "previous_secret_ref: b")
    config = folder.load({"A": "first-secret", "B": "second-secret"})
    view: Any = shown(config)
    assert "-secret" not in json.dumps(view)
    (found,) = view["webhooks"]["endpoints"]
    assert (found["secret_ref"], found["previous_secret_ref"]) == ("a", "b")


def test_names_of_webhooks_are_taken_once(folder: Folder) -> None:
    folder.write(
        config="""
    tokens: [{name: a, key: "${A}"}]
    webhooks:
      endpoints:
        - {path: /a, plugin: p, secret_ref: a, signature_header: X-S}
        - {path: /b, name: a, plugin: p, secret_ref: a, signature_header: X-S}
"""
    )
    assert folder.told(A="s") == [
        "config.yaml:5: webhooks.endpoints[1].name: the name 'a' is taken"
    ]
