"""Trials: a request that a sender with the secret of an endpoint would send."""

from __future__ import annotations

from ...schema.message.canonical_json import encode
from .signatures import sign

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..config.webhooks import PartOf, WebhookEndpoint


def trial(
    endpoint: WebhookEndpoint, body: bytes | None, *, delivery: str, now_s: float
) -> tuple[dict[str, str], bytes]:
    """Return the headers and the body of a signed request.

    Args:
        endpoint: where it is to go.
        body: the body; None: a JSON object with the parts that the endpoint reads from bodies.
        delivery: the id of the delivery.
        now_s: the time, in seconds of the epoch.
    """
    parts = {endpoint.delivery_id: delivery, endpoint.event_type_from: "test"}
    if body is None:
        body = encode({"test": True} | _of(parts, "body"))
    headers = {"Content-Type": "application/json"} | _of(parts, "header")
    return headers | sign(endpoint, body, id=delivery, now_s=now_s), body


def _of(parts: dict[PartOf | None, str], where: str) -> dict[str, str]:
    return {part.name: text for part, text in parts.items() if part and part.where == where}
