"""Signatures of webhooks, against what senders document and the reference implementation."""

import base64
import hashlib
import hmac
import json
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from standardwebhooks.webhooks import Webhook, WebhookVerificationError

from ackbus.automation.config.models import WebhookEndpoint
from ackbus.automation.config.values import Secret
from ackbus.automation.webhooks import BadSignature, Signed, sign, verify

from . import senders

NOW = 1_614_265_330.0


def endpoint(secret: str, header: str = "X-Signature", **fields: Any) -> WebhookEndpoint:
    previous = fields.pop("previous", None)
    return WebhookEndpoint(
        path="/hook",
        secret_ref="s",
        secret=Secret(secret),
        previous_secret=previous and Secret(previous),
        signature_header=header,
        **fields,
    )


GITHUB = endpoint(senders.GITHUB_SECRET, "X-Hub-Signature-256")
SHOPIFY = endpoint(senders.SHOPIFY_SECRET, "X-Shopify-Hmac-SHA256")
STRIPE = endpoint(senders.STRIPE_SECRET, "Stripe-Signature", signature_format="stripe")
STANDARD = endpoint(senders.STANDARD_SECRET, "webhook-signature", signature_format="standard")


def checked(
    taker: WebhookEndpoint, headers: dict[str, str], body: bytes, now: float = NOW
) -> Signed:
    return verify(taker, {name.lower(): value for name, value in headers.items()}, body, now)


def is_taken(*request: Any, **at: float) -> bool:
    try:
        checked(*request, **at)
    except BadSignature:
        return False
    return True


def test_the_example_of_github_is_taken() -> None:
    """The values of "Validating webhook deliveries" in its documentation."""
    mac = "757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17"
    assert is_taken(GITHUB, {"X-Hub-Signature-256": f"sha256={mac}"}, b"Hello, World!")
    assert not is_taken(GITHUB, {"X-Hub-Signature-256": f"sha256={mac}"}, b"Hello, World?")


def test_the_example_of_standard_webhooks_is_taken() -> None:
    headers = {
        "webhook-id": "msg_p5jXN8AQM9LWM0D4loKWxJek",
        "webhook-timestamp": "1614265330",
        "webhook-signature": "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=",
    }
    found = checked(STANDARD, headers, b'{"test": 2432232314}')
    assert (found.id, found.is_dated) == ("msg_p5jXN8AQM9LWM0D4loKWxJek", True)


@pytest.mark.parametrize(
    ("taker", "request_"),
    [
        (GITHUB, senders.github()),
        (SHOPIFY, senders.shopify()),
        (STRIPE, senders.stripe(at=NOW)),
        (STANDARD, senders.standard(at=NOW)),
    ],
    ids=["github", "shopify", "stripe", "standard"],
)
def test_what_a_sender_signs_is_taken_and_no_other_bytes(
    taker: WebhookEndpoint, request_: senders.Request
) -> None:
    _, headers, body = request_
    assert is_taken(taker, headers, body)
    for other in (body + b" ", body[:-1], b"", body.replace(b" ", b"")):
        assert other == body or not is_taken(taker, headers, other)
    again = json.dumps(json.loads(body)).encode()  # encoded anew, it is not what was signed
    assert again == body or not is_taken(taker, headers, again)
    wrong = endpoint("wrong", taker.signature_header)
    assert not is_taken(wrong, headers, body)


@pytest.mark.requirement("D-125")
def test_d_125_bare_hex_and_the_prefix_are_taken_under_any_header() -> None:
    body, mac = b"{}", hmac.new(b"s", b"{}", hashlib.sha256)
    taker = endpoint("s", "X-My-Own")
    for text in (mac.hexdigest(), f"sha256={mac.hexdigest()}", mac.hexdigest().upper()):
        assert is_taken(taker, {"X-My-Own": text}, body)
    assert is_taken(taker, {"x-my-own": base64.b64encode(mac.digest()).decode()}, body)
    assert not is_taken(taker, {"X-Signature": mac.hexdigest()}, body)
    own = endpoint("s", "X-My-Own", signature_prefix="hmac ")
    assert is_taken(own, {"X-My-Own": f"hmac {mac.hexdigest()}"}, body)
    assert not is_taken(own, {"X-My-Own": mac.hexdigest()}, body)
    assert not is_taken(own, {"X-My-Own": f"sha256={mac.hexdigest()}"}, body)


@pytest.mark.requirement("Q-14")
@pytest.mark.parametrize("taker", [STRIPE, STANDARD], ids=["stripe", "standard"])
@pytest.mark.parametrize(
    ("age_s", "taken"), [(0, True), (299, True), (301, False), (-299, True), (-301, False)]
)
def test_a_signed_time_is_in_the_window(taker: WebhookEndpoint, age_s: int, taken: bool) -> None:
    headers = sign(taker, b"{}", id="msg_1", now_s=NOW)
    assert is_taken(taker, headers, b"{}", now=NOW + age_s) is taken


def test_the_window_is_as_long_as_the_endpoint_says() -> None:
    taker = endpoint("s", "Stripe-Signature", signature_format="stripe", replay_window_s=10.0)
    headers = sign(taker, b"", id="", now_s=NOW)
    assert is_taken(taker, headers, b"", now=NOW + 10)
    assert not is_taken(taker, headers, b"", now=NOW + 11)


@pytest.mark.requirement("Q-19")
@pytest.mark.parametrize("form", ["plain", "standard", "stripe"])
def test_both_secrets_count_while_they_are_changed(form: Any) -> None:
    new, old = senders.STANDARD_SECRET, senders.OLD_STANDARD_SECRET
    header = "webhook-signature"
    both = endpoint(new, header, previous=old, signature_format=form)
    for secret in (new, old):
        signed = sign(endpoint(secret, header, signature_format=form), b"{}", id="msg_1", now_s=NOW)
        assert is_taken(both, signed, b"{}")
    other = endpoint("whsec_AAAA", header, signature_format=form)
    assert not is_taken(both, sign(other, b"{}", id="msg_1", now_s=NOW), b"{}")


def test_headers_of_others_that_follow_the_standard_are_beside_the_signature() -> None:
    svix = endpoint(senders.STANDARD_SECRET, "Svix-Signature", signature_format="standard")
    headers = sign(svix, b"{}", id="msg_1", now_s=NOW)
    assert headers.keys() == {"Svix-Signature", "Svix-id", "Svix-timestamp"}
    assert is_taken(svix, headers, b"{}")


_TEXTS = st.text(max_size=40).map(lambda text: text.encode("utf-8", "replace").decode("utf-8"))
_SECRETS = st.binary(min_size=1, max_size=64).map(
    lambda key: "whsec_" + base64.b64encode(key).decode()
)
_IDS = st.text("abcMSG_019-.", min_size=1, max_size=30)


@given(_SECRETS, _IDS, _TEXTS)
def test_our_signatures_are_those_of_the_reference(secret: str, id: str, text: str) -> None:
    taker = endpoint(secret, "webhook-signature", signature_format="standard")
    ours = sign(taker, text.encode(), id=id, now_s=NOW)
    theirs = Webhook(secret).sign(id, datetime.fromtimestamp(NOW, UTC), text)
    assert ours["webhook-signature"] == theirs
    assert is_taken(taker, ours, text.encode())


def _reference_takes(headers: dict[str, str], body: bytes) -> bool:
    try:
        Webhook(senders.STANDARD_SECRET).verify(body, headers, json_parse=False)
    except (WebhookVerificationError, ValueError):  # it raises others for malformed ones
        return False
    return True


_CHANGES = st.sampled_from(
    [
        ("webhook-id", "msg_2"),
        ("webhook-id", ""),
        ("webhook-timestamp", "0"),
        ("webhook-timestamp", "x"),
        ("webhook-signature", ""),
        ("webhook-signature", "v1,"),
        ("webhook-signature", "v1,AAAA"),
        ("webhook-signature", "v2,{}"),
        ("webhook-signature", "v1,AAAA v1,{}"),
        ("webhook-signature", "v2,AAAA v1,{} v1,BBBB"),
        ("webhook-signature", "{}"),
        ("body", "[1]"),
        ("nothing", ""),
    ]
)


@given(st.lists(_CHANGES, max_size=2))
def test_the_reference_takes_what_we_take(changes: list[tuple[str, str]]) -> None:
    now = datetime.now(UTC).timestamp()
    body = b'{"a": 1}'
    headers = sign(STANDARD, body, id="msg_1", now_s=now)
    bare = headers["webhook-signature"].removeprefix("v1,")
    for name, text in changes:
        if name == "body":
            body = text.encode()
        else:
            headers[name] = text.format(bare)
    assert is_taken(STANDARD, headers, body, now=now) == _reference_takes(headers, body)


_LATIN = st.text(st.characters(max_codepoint=255), max_size=300)


@given(
    st.sampled_from([GITHUB, SHOPIFY, STRIPE, STANDARD]),
    _LATIN,
    _LATIN,
    _LATIN,
    st.binary(max_size=50),
)
@example(STRIPE, "t=²,v1=" + "0" * 64, "", "", b"")
@example(STANDARD, "v1," + "=" * 44, "msg", "१२३", b"")
@example(GITHUB, "sha256=" + "ab" * 31 + "a ", "", "", b"")
@example(GITHUB, "sha256=" + "é" * 64, "", "", b"")
def test_no_header_is_anything_but_a_bad_signature(
    taker: WebhookEndpoint, text: str, id: str, time: str, body: bytes
) -> None:
    headers = {taker.signature_header: text, "webhook-id": id, "webhook-timestamp": time}
    assert not is_taken(taker, headers, body)
