"""The names of the fields of a door, and those that no field has."""

from collections.abc import Iterator

#: Other names for what the glossary has a word for.
SECOND_NAMES = {
    "body": "payload",
    "conversation_id": "conversation",
    "found": "messages",
    "instance": "worker",
    "lease_until": "until",
    "parent_id": "in_reply_to",
    "q": "words",
    "reply_to": "in_reply_to",
    "topic": "type",
    "ttl_s": "lease_s",
}


def fields(schema: object) -> Iterator[str]:
    """The names of all fields in an OpenAPI document, or in a JSON Schema."""
    if isinstance(schema, dict):
        yield from schema.get("properties", {})
        parameters = schema.get("parameters", [])
        yield from (each["name"] for each in parameters if "name" in each)
        for inner in schema.values():
            yield from fields(inner)
    elif isinstance(schema, list):
        for inner in schema:
            yield from fields(inner)
