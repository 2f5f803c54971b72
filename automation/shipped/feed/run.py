#!/usr/bin/env python3
"""Polls a feed or JSON, and publishes each new item once; its manifest describes the settings.

Its state has the validators of a URL's last answer and the digests of the items that it knows.
"""

from __future__ import annotations

import hashlib
import http.client
import ipaddress
import json
import math
import os
import re
import socket
import sys
import urllib.error
import urllib.request
from contextlib import suppress
from itertools import islice
from urllib.parse import urlsplit
from xml.etree import ElementTree

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from email.message import Message
    from typing import Any

PROTOCOL = 2

#: The exit code for a wrong configuration or request, which no retry mends.
EX_CONFIG = 78

#: How much of a text of an item is published, in characters.
MAX_TEXT_CHARS = 10_000

#: How many items a feed has at most: their digests are the state, which has 1 MB.
MAX_ITEMS = 40_000

#: How much all events of a poll hold, in characters of JSON: an answer has 10 MB.
MAX_EVENTS_CHARS = 2_000_000

#: How much of a server's error message is reported, in bytes.
MAX_SAID_BYTES = 500

#: How long a pause a server may ask for, in seconds.
MAX_PAUSE_S = 3_600

#: Answers of a server that a later request may not get.
PASSING = (408, 421, 425, 429)

ATOM = "{http://www.w3.org/2005/Atom}"
RSS_1 = "{http://purl.org/rss/1.0/}"
DUBLIN = "{http://purl.org/dc/elements/1.1/}"
CONTENT = "{http://purl.org/rss/1.0/modules/content/}"
RDF_ABOUT = "{http://www.w3.org/1999/02/22-rdf-syntax-ns#}about"


class Failure(Exception):
    """The end of a run that did not work, and whether and when another attempt may work."""

    def __init__(self, error: str, *, retry: bool = False, **pause: int) -> None:
        super().__init__(error)
        self.attempt = {"retry": retry, **pause}


class Misconfigured(Failure):
    """A setting that is wrong."""


class Settings:
    """The settings of the operator, checked."""

    def __init__(self, config: Mapping[str, Any]) -> None:
        self._config = config
        self.url = self._of("url", str, "")
        if not re.match(r"(https?://[^/]|file:///)", self.url):
            raise Misconfigured("url: write http://…, https://… or file:///…")
        if not self.url.isascii() or not self.url.isprintable() or " " in self.url:
            raise Misconfigured("url: write what is no plain letter as %XX")
        self.event_type = self._of("event_type", str, "feed.item")
        self.items = self._of("items", str, "")
        self.id = self._of("id", str, "")
        self.headers = self._of("headers", dict, {})
        for name, value in self.headers.items():
            if not re.fullmatch(r"[!#-'*+.^-z|~A-Z0-9-]+", name) or not isinstance(value, str):
                raise Misconfigured(f"headers: {name!r}: write a name and a text")
            if not value.isprintable():
                raise Misconfigured(f"headers: {name!r}: write one line")
        self.timeout_s = self._number("timeout_s", 30)
        self.max_items = self._number("max_items", 100)
        self.remember = self._number("remember", 1_000, most=10_000)
        self.max_bytes = self._number("max_bytes", 10_000_000)
        self.skip_first = self._of("skip_first", bool, False)

    def _of(self, name: str, type: type, usual: Any) -> Any:
        value = self._config.get(name)
        if value is None:
            return usual
        if not isinstance(value, type):
            words = {str: "a text", dict: "a map", bool: "true or false"}
            raise Misconfigured(f"{name}: write {words[type]}")
        return value

    def _number(self, name: str, usual: int, most: int = 1_000_000_000) -> int:
        value = self._config.get(name, usual)
        if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= most:
            raise Misconfigured(f"{name}: write a number from 1 to {most}")
        return value


class Redirects(urllib.request.HTTPRedirectHandler):
    """Follows where servers lead, but not out of HTTP, nor from elsewhere into this network."""

    def redirect_request(self, req: Any, fp: Any, *rest: Any) -> Any:
        """Return the next request, or fail."""
        there = urlsplit(rest[-1])
        is_web = there.scheme in ("http", "https")
        if not is_web or (is_near(there.hostname) and not is_near(urlsplit(req.full_url).hostname)):
            led = f"{there.scheme}://{there.hostname}"
            raise Failure(f"the server leads to {led}, which is not followed")
        return super().redirect_request(req, fp, *rest)


def is_near(host: str | None) -> bool:
    """Tell whether a host is this machine, or of its network, by one of its addresses."""
    try:
        return not all(is_public(str(address[4][0])) for address in socket.getaddrinfo(host, None))
    except (OSError, UnicodeError):  # a proxy may know it, else the request fails
        return False


def fetch(settings: Settings, validators: Mapping[str, Any]) -> tuple[bytes | None, Message]:
    """Return the feed, None where nothing has changed since these validators, and its headers."""
    usual = "application/feed+json, application/json, */*;q=0.5"
    named = {"User-Agent": "ackbus-feed/1.0", "Accept": usual}
    request = urllib.request.Request(settings.url, headers=named)
    for name, value in settings.headers.items():
        request.add_unredirected_header(name, value)  # no other server gets a secret of this one
    for header, name in (("If-None-Match", "etag"), ("If-Modified-Since", "last_modified")):
        if validators.get(name):
            request.add_header(header, str(validators[name]))
    try:
        opener = urllib.request.build_opener(Redirects)
        with opener.open(request, timeout=settings.timeout_s) as response:
            body, headers = response.read(settings.max_bytes + 1), response.headers
    except urllib.error.HTTPError as error:
        with error:
            if error.code != 304:
                raise refusal(error) from None
            return None, error.headers
    except (OSError, http.client.HTTPException) as error:
        reason = getattr(error, "reason", None) or error
        raise Failure(f"the feed can't be read: {reason}", retry=True) from None
    except ValueError as error:  # of the URL, or of a header
        raise Misconfigured(f"the feed can't be asked for: {error}") from None
    if len(body) > settings.max_bytes:
        raise Failure(f"the feed is larger than max_bytes, {settings.max_bytes}")
    return body, headers


def refusal(error: urllib.error.HTTPError) -> Failure:
    """Return the failure that an answer other than a feed is, with the server's own words."""
    body = b""
    with suppress(OSError, http.client.HTTPException):  # it broke off: its status is enough
        body = error.read(MAX_SAID_BYTES)
    line = " ".join(body.decode(errors="replace").split())
    after = error.headers.get("Retry-After", "")
    pause = {"retry_after_s": min(int(after[:9]), MAX_PAUSE_S)} if after.isdecimal() else {}
    message = f"the server answers {error.code} {error.reason}" + (line and f": {line}")
    return Failure(message, retry=error.code in PASSING or error.code >= 500, **pause)


def items_of(body: bytes, settings: Settings) -> list[dict[str, Any]]:
    """Return the items of a feed in its order, each with an `id`."""
    text = body.lstrip(b"\xef\xbb\xbf \t\r\n")
    if text[:1] in (b"{", b"["):
        return list(of_json(text, settings))
    if b"<!ENTITY" in body.replace(b"\0", b""):  # also in UTF-16
        raise Failure("the feed defines entities, which are not expanded")
    try:
        return list(of_xml(ElementTree.fromstring(body)))
    except (ElementTree.ParseError, LookupError, ValueError, RecursionError) as error:
        raise Failure(f"the feed is neither JSON nor XML: {error}", retry=True) from None


def of_json(body: bytes, settings: Settings) -> Iterator[dict[str, Any]]:
    """Yield the items of JSON: of a JSON Feed in the form of all feeds, others as they are."""
    try:
        document = json.loads(body, parse_constant=number, parse_float=number)
    except (ValueError, RecursionError) as error:
        raise Failure(f"the feed is not JSON: {error}", retry=True) from None
    is_feed = isinstance(document, dict) and "jsonfeed.org" in str(document.get("version"))
    if settings.items:
        listed = at(document, settings.items)
        if not isinstance(listed, list):
            raise Misconfigured(f"items: there is no list at {settings.items}")
    else:
        listed = document.get("items") if isinstance(document, dict) else document
    for item in listed if isinstance(listed, list) else [document]:
        if is_feed and isinstance(item, dict):
            yield of_json_feed(item, document)
        else:
            yield {"id": name_of(item, settings.id), "item": item}


def number(text: str) -> float:
    """Return a number; what JSON can't say again, such as NaN and 1e999, is refused."""
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(f"{text} is no number")
    return value


def at(value: Any, path: str) -> Any:
    """Return what a path such as data.entries leads to, or None."""
    for name in path.split("."):
        value = value.get(name) if isinstance(value, dict) else None
    return value


def name_of(item: Any, field: str) -> str:
    """Return the identity of an item: its field, else the usual ones, else all of it."""
    fields = (field,) if field else ("id", "guid", "url", "link")  # the first that is there
    for identity in (at(item, key) for key in fields):
        if isinstance(identity, (str, int)) and not isinstance(identity, bool) and identity != "":
            return str(identity)
    return digest(json.dumps(item, sort_keys=True))


def of_json_feed(item: Mapping[str, Any], feed: Mapping[str, Any]) -> dict[str, Any]:
    """Return an item of a JSON Feed."""
    authors = item.get("authors") or [item.get("author") or feed.get("author")]
    first = authors[0] if isinstance(authors, list) else None
    return present_fields(
        id=name_of(item, ""),
        title=item.get("title"),
        url=item.get("url") or item.get("external_url"),
        summary=item.get("summary") or item.get("content_text") or item.get("content_html"),
        author=first.get("name") if isinstance(first, dict) else None,
        published=item.get("date_published"),
        updated=item.get("date_modified"),
        categories=item.get("tags"),
        feed=feed.get("title"),
    )


def of_xml(root: ElementTree.Element) -> Iterator[dict[str, Any]]:
    """Yield the items of RSS 0.9 to 2.0, or Atom."""
    if root.tag == f"{ATOM}feed":
        feed = words(root, f"{ATOM}title")
        for entry in root.findall(f"{ATOM}entry"):
            yield of_entry(entry, feed)
        return
    items = root.findall("channel/item") or root.findall(f"{RSS_1}item") or root.findall("item")
    if not items and root.tag not in ("rss", "{http://www.w3.org/1999/02/22-rdf-syntax-ns#}RDF"):
        raise Failure(f"{root.tag!r} is no feed: write the URL of RSS, Atom or JSON")
    feed = words(root, "channel/title", f"{RSS_1}channel/{RSS_1}title")
    for item in items:
        yield of_item(item, feed)


def of_entry(entry: ElementTree.Element, feed: str | None) -> dict[str, Any]:
    """Return an entry of Atom."""
    link_elements = entry.findall(f"{ATOM}link")
    links = {link.get("rel", "alternate"): link.get("href") for link in link_elements}
    item = present_fields(
        id=words(entry, f"{ATOM}id") or links.get("alternate"),
        title=words(entry, f"{ATOM}title"),
        url=links.get("alternate") or links.get("self"),
        summary=words(entry, f"{ATOM}summary", f"{ATOM}content"),
        author=words(entry, f"{ATOM}author/{ATOM}name"),
        published=words(entry, f"{ATOM}published"),
        updated=words(entry, f"{ATOM}updated"),
        categories=[category.get("term") for category in entry.findall(f"{ATOM}category")],
        feed=feed,
    )
    return with_id(item, entry)


def of_item(item: ElementTree.Element, feed: str | None) -> dict[str, Any]:
    """Return an item of RSS."""
    link = words(item, "link", f"{RSS_1}link")
    fields = present_fields(
        id=words(item, "guid") or item.get(RDF_ABOUT) or link,
        title=words(item, "title", f"{RSS_1}title"),
        url=link,
        summary=words(item, "description", f"{RSS_1}description", f"{CONTENT}encoded"),
        author=words(item, "author", f"{DUBLIN}creator"),
        published=words(item, "pubDate", f"{DUBLIN}date"),
        categories=[category.text for category in item.findall("category")],
        feed=feed,
    )
    return with_id(fields, item)


def with_id(item: dict[str, Any], element: ElementTree.Element) -> dict[str, Any]:
    """Return an item; one without an id has the digest of all that it says."""
    return item if "id" in item else {"id": digest(ElementTree.tostring(element, "unicode"))} | item


def words(element: ElementTree.Element, *paths: str) -> str | None:
    """Return the text of the first element that is there and has some."""
    nodes = (node for path in paths for node in element.findall(path)[:1])
    return next(filter(None, ("".join(node.itertext()).strip() for node in nodes)), None)


def present_fields(**fields: Any) -> dict[str, Any]:
    """Return the fields that are there, each text up to a limit."""
    return {
        name: value[:MAX_TEXT_CHARS] if isinstance(value, str) else value
        for name, value in fields.items()
        if value not in (None, "", [])
    }


def digest(text: str) -> str:
    """Return a short digest."""
    return hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()[:32]


def poll(settings: Settings, state: Mapping[str, Any]) -> dict[str, Any]:
    """Publish the items that are new."""
    place = digest(settings.url)
    is_known = state.get("place") == place
    seen_keys = list(state.get("seen") or ()) if is_known else []
    validators = state.get("validators") or {} if is_known else {}
    body, headers = fetch(settings, validators)
    if body is None:
        return {"result": "nothing new: the server says that nothing has changed"}
    items: dict[str, dict[str, Any]] = {}
    for item in items_of(body, settings):
        items.setdefault(digest(f"{settings.url}\n{item['id']}")[:16], item)
    if len(items) > MAX_ITEMS:
        raise Failure(f"the feed has {len(items)} items; {MAX_ITEMS} are the most")
    old = set(items if settings.skip_first and not is_known else seen_keys)
    new = [key for key in reversed(items) if key not in old]  # feeds begin with the newest
    events = list(events_of(settings, {key: items[key] for key in new}))
    postponed = set(new[len(events) :])
    validators = {"etag": headers["ETag"], "last_modified": headers["Last-Modified"]}
    here = [key for key in items if key not in postponed]
    vanished = [key for key in seen_keys if key not in items]
    update = {
        "place": place,
        # Without them the next poll gets the items that this one postponed.
        "validators": {} if postponed else validators,
        "seen": here + vanished[: settings.remember],
    }
    more = f", {len(postponed)} are left for the next poll" if postponed else ""
    result = f"{len(events)} new of {len(items)} items{more}"
    return {"result": result, "events": events, "state_updates": update}


def events_of(settings: Settings, items: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the events of items by key, up to the limit of one poll."""
    room = MAX_EVENTS_CHARS
    for key, item in islice(items.items(), settings.max_items):
        event = {"type": settings.event_type, "payload": item, "dedupe_key": f"feed:{key}"}
        size = len(json.dumps(event))
        if size > room < MAX_EVENTS_CHARS:
            return
        room -= size
        yield event


def health(settings: Settings, state: Mapping[str, Any]) -> dict[str, Any]:
    """Read the feed."""
    body, _ = fetch(settings, {})
    return {"result": f"the feed has {len(items_of(body or b'', settings))} items"}


# The settings are checked before each.
COMMANDS = {"poll": poll, "health": health, "init": lambda *_: {"result": "the settings are right"}}


def main() -> int:
    """Answer the request on stdin."""
    request = json.load(sys.stdin)
    if request.get("protocol") != PROTOCOL:
        message = f"the request is of protocol {request.get('protocol')}"
        print(f"{message}; this plugin speaks protocol {PROTOCOL}", file=sys.stderr)
        return EX_CONFIG
    code = 0
    try:
        settings = Settings(request.get("config") or {})
        response = COMMANDS[request["command"]](settings, request.get("state") or {})
        response = {"status": "ok"} | response
    except Failure as failure:
        response = {"status": "error", "error": str(failure)} | failure.attempt
        code = EX_CONFIG if isinstance(failure, Misconfigured) else 0
    text = json.dumps(response, ensure_ascii=False)
    with os.fdopen(1, "wb", closefd=False) as whole:  # also where Python's own stream has no buffer
        whole.write(text.encode(errors="replace"))  # JSON may name half of a character
    return code


# Addresses of the public internet: a copy of a section of `automation/forwarding_targets.py`, as
# the plugin runs alone. A test compares them.

#: Networks, each with whether its addresses are of the public internet; the narrowest one counts.
#: An address of version 4 in none is public; one of version 6 is in 2000::/3 or in none.
NETWORKS = {
    "0.0.0.0/0": True,
    "0.0.0.0/8": False,  # this network
    "10.0.0.0/8": False,  # private
    "100.64.0.0/10": False,  # shared by the customers of a provider
    "127.0.0.0/8": False,  # this machine
    "169.254.0.0/16": False,  # this link
    "172.16.0.0/12": False,  # private
    "192.0.0.0/24": False,  # protocols of the IETF
    "192.0.0.9/32": True,  # port control, anycast
    "192.0.0.10/32": True,  # relays, anycast
    "192.0.2.0/24": False,  # documentation
    "192.31.196.0/24": True,  # AS112
    "192.52.193.0/24": True,  # AMT
    "192.88.99.0/24": False,  # relays of 6to4, deprecated
    "192.168.0.0/16": False,  # private
    "192.175.48.0/24": True,  # AS112
    "198.18.0.0/15": False,  # benchmarks
    "198.51.100.0/24": False,  # documentation
    "203.0.113.0/24": False,  # documentation
    "224.0.0.0/4": False,  # multicast
    "240.0.0.0/4": False,  # reserved, and the broadcast of all
    "::/0": False,  # ours, mapped, translated, of a site or a link, multicast, or nobody's
    "2000::/3": True,
    "2001::/23": False,  # protocols of the IETF, among them Teredo, 2001::/32
    "2001:1::1/128": True,  # port control, anycast
    "2001:1::2/128": True,  # relays, anycast
    "2001:1::3/128": True,  # service registration, anycast
    "2001:3::/32": True,  # AMT
    "2001:4:112::/48": True,  # AS112
    "2001:20::/28": True,  # ORCHIDv2
    "2001:30::/28": True,  # drones
    "2001:db8::/32": False,  # documentation
    "2002::/16": False,  # 6to4, which leads to whatever its address of version 4 is
    "2620:4f:8000::/48": True,  # AS112
    "3fff::/20": False,  # documentation
}

#: The addresses by which a gateway leads to one of version 4, which is its last 32 bits.
NAT64 = "64:ff9b::/96"

_NETWORKS = sorted(
    ((ipaddress.ip_network(text), is_public) for text, is_public in NETWORKS.items()),
    key=lambda entry: -entry[0].prefixlen,
)
_NAT64 = ipaddress.ip_network(NAT64)


def is_public(text: str) -> bool:
    """Whether an address, as the resolver writes it, is one of the public internet.

    One of version 6 by which a gateway leads to one of version 4 is as good as that.
    """
    address = ipaddress.ip_address(text.partition("%")[0])
    if address in _NAT64:
        return is_public(str(ipaddress.IPv4Address(int(address) & 0xFFFF_FFFF)))
    return next(is_public for network, is_public in _NETWORKS if address in network)


if __name__ == "__main__":
    sys.exit(main())
