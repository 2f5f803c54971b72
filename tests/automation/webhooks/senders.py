"""Senders of webhooks: what each sends, and how it signs, by its public documentation.

Nothing of ours is used: the signatures are made here by those documents.
"""

import base64
import hashlib
import hmac
import json
from datetime import UTC, datetime

from standardwebhooks.webhooks import Webhook

GITHUB_SECRET = "It's a Secret to Everybody"
STRIPE_SECRET = "whsec_5WbX5kEWLlfzsGNjH64I8lOOqUB6e8FH"
SHOPIFY_SECRET = "hush"
STANDARD_SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
OLD_STANDARD_SECRET = "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD"

#: The endpoints that take them.
ENDPOINTS = """
        - path: /hook/github
          plugin: echo
          secret_ref: github
          signature_header: X-Hub-Signature-256
          event_type: github
          event_type_from: header:X-GitHub-Event
          delivery_id: header:X-GitHub-Delivery
        - path: /hook/stripe
          plugin: echo
          secret_ref: stripe
          signature_header: Stripe-Signature
          signature_format: stripe
          event_type_from: body:type
          delivery_id: body:id
        - path: /hook/standard
          plugin: echo
          secret_ref: standard
          previous_secret_ref: standard_old
          signature_header: webhook-signature
          signature_format: standard
        - path: /hook/shopify
          plugin: echo
          secret_ref: shopify
          signature_header: X-Shopify-Hmac-SHA256
          event_type_from: header:X-Shopify-Topic
          delivery_id: header:X-Shopify-Webhook-Id
"""
TOKENS = """
    tokens:
      - {name: github, key: "${GITHUB}"}
      - {name: stripe, key: "${STRIPE}"}
      - {name: standard, key: "${STANDARD}"}
      - {name: standard_old, key: "${STANDARD_OLD}"}
      - {name: shopify, key: "${SHOPIFY}"}
"""
ENVIRON = {
    "GITHUB": GITHUB_SECRET,
    "STRIPE": STRIPE_SECRET,
    "STANDARD": STANDARD_SECRET,
    "STANDARD_OLD": OLD_STANDARD_SECRET,
    "SHOPIFY": SHOPIFY_SECRET,
}

Request = tuple[str, dict[str, str], bytes]


def mac(key: bytes, data: bytes) -> bytes:
    """The HMAC-SHA256 of some bytes."""
    return hmac.new(key, data, hashlib.sha256).digest()


def github(delivery: str = "72d3162e-cc78-11e3-81ab-4c9367dc0958") -> Request:
    """A push, as GitHub sends it."""
    body = json.dumps(
        {
            "ref": "refs/heads/main",
            "before": "6113728f27ae82c7b1a177c8d03f9e96e0adf246",
            "after": "0d1a26e67d8f5eaf1f6ba5c57fc3c7d91ac0fd1c",
            "repository": {"id": 186853002, "full_name": "Codertocat/Hello-World"},
            "pusher": {"name": "Codertocat", "email": "21031067+Codertocat@users.example"},
            "commits": [{"message": 'Grüße, \u2028 and a \\ "quote"', "added": ["a/b.c"]}],
        },
        indent=1,
        ensure_ascii=False,
    ).encode()
    headers = {
        "User-Agent": "GitHub-Hookshot/044aadd",
        "Content-Type": "application/json",
        "X-GitHub-Delivery": delivery,
        "X-GitHub-Event": "push",
        "X-GitHub-Hook-ID": "292430182",
        "X-Hub-Signature-256": f"sha256={mac(GITHUB_SECRET.encode(), body).hex()}",
    }
    return "/hook/github", headers, body


def stripe(event: str = "evt_1NG8Du2eZvKYlo2CUI79vXWy", *, at: float) -> Request:
    """An event, as Stripe sends it."""
    body = json.dumps(
        {
            "id": event,
            "object": "event",
            "api_version": "2019-02-19",
            "created": int(at),
            "data": {"object": {"id": "seti_1NG8Du2eZvKYlo2C9XMqbR0x", "object": "setup_intent"}},
            "livemode": False,
            "pending_webhooks": 0,
            "type": "setup_intent.created",
        },
        indent=2,
    ).encode()
    right = mac(STRIPE_SECRET.encode(), f"{int(at)}.".encode() + body).hex()
    other = "6ffbb59b2300aae63f272406069a9788598b792a944a07aba816edb039989a39"
    return (
        "/hook/stripe",
        {"Stripe-Signature": f"t={int(at)},v1={other},v1={right},v0={other}"},
        body,
    )


def standard(
    message: str = "msg_2KWPBgLlAfxdpx2AI54pPJ85f4W", *, at: float, secret: str = STANDARD_SECRET
) -> Request:
    """An event, as the reference implementation of Standard Webhooks signs it."""
    text = json.dumps({"type": "contact.created", "data": {"id": "1f81eb52", "name": "Jürgen"}})
    signature = Webhook(secret).sign(message, datetime.fromtimestamp(int(at), UTC), text)
    headers = {
        "webhook-id": message,
        "webhook-timestamp": str(int(at)),
        "webhook-signature": f"v1a,unknown {signature}",
    }
    return "/hook/standard", headers, text.encode()


def shopify(delivery: str = "b54557e4-bdd9-4b37-8a5f-bf7d70bcd043") -> Request:
    """An order, as Shopify sends it."""
    body = b'{"id":820982911946154508,"email":"jon@example.com","total_price":"398.00"}'
    headers = {
        "X-Shopify-Topic": "orders/create",
        "X-Shopify-Webhook-Id": delivery,
        "X-Shopify-Hmac-SHA256": base64.b64encode(mac(SHOPIFY_SECRET.encode(), body)).decode(),
    }
    return "/hook/shopify", headers, body


def config(more: str = "") -> str:
    """A configuration with an endpoint for each sender."""
    return f"""
    plugin_roots: [plugins]
    plugins: {{echo: {{enabled: true}}}}
{TOKENS}
    webhooks:
      listen: 127.0.0.1:0
      endpoints:
{ENDPOINTS}{more}
"""
