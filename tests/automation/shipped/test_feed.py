"""The plugin that polls feeds, against a real server."""

import json
from pathlib import Path
from typing import Any

import pytest

from .asking import Plugin
from .web import Site, breaking_off, etag_of

pytestmark = pytest.mark.slow


def rss(*names: str) -> bytes:
    """An RSS feed with these items, the newest first, as feeds have them."""
    items = "".join(
        f"<item><guid>{name}</guid><title>Title {name}</title><link>http://x.example/{name}</link>"
        f"<description>About {name} &amp; more</description><category>a</category>"
        f"<pubDate>Wed, 21 Oct 2026 07:28:00 GMT</pubDate></item>"
        for name in names
    )
    text = f"<rss version='2.0'><channel><title>News</title>{items}</channel></rss>"
    return text.encode()


def feed(site: Site, **config: Any) -> Plugin:
    return Plugin("feed", {"url": f"{site.url}/feed"} | config)


def ids(plugin: Plugin) -> list[str]:
    return [payload["id"] for payload in plugin.poll().payloads]


def test_each_new_item_is_one_event_the_oldest_first(site: Site) -> None:
    site.pages["/feed"] = rss("2", "1")
    plugin = feed(site)
    first = plugin.poll()
    assert [event["type"] for event in first.events] == ["feed.item", "feed.item"]
    assert first.payloads == [
        {
            "id": name,
            "title": f"Title {name}",
            "url": f"http://x.example/{name}",
            "summary": f"About {name} & more",
            "published": "Wed, 21 Oct 2026 07:28:00 GMT",
            "categories": ["a"],
            "feed": "News",
        }
        for name in ("1", "2")
    ]
    keys = [event["dedupe_key"] for event in first.events]
    assert len(set(keys)) == 2
    assert ids(plugin) == []
    site.pages["/feed"] = rss("3", "2", "1")
    assert ids(plugin) == ["3"]


def test_an_unchanged_feed_is_asked_for_by_what_the_server_said_of_it(site: Site) -> None:
    site.pages["/feed"] = rss("1")
    plugin = feed(site)
    plugin.poll()
    again = plugin.poll()
    assert again.response["result"] == "nothing new: the server says that nothing has changed"
    headers = site.asked[-1].headers
    assert headers["If-None-Match"] == etag_of(rss("1"))
    assert headers["If-Modified-Since"] == "Wed, 21 Oct 2026 07:28:00 GMT"
    assert "If-None-Match" not in site.asked[0].headers


def test_items_that_left_the_feed_are_remembered_up_to_a_bound(site: Site) -> None:
    plugin = feed(site, remember=2)
    for names in (["1"], ["2"], ["3"], ["4"]):
        site.pages["/feed"] = rss(*names)
        assert ids(plugin) == names
    assert len(plugin.state["seen"]) == 3  # what is there, and two that were
    site.pages["/feed"] = rss("4", "3", "2", "1")
    assert ids(plugin) == ["1"]  # the bound has let it go


def test_what_one_poll_leaves_comes_with_the_next_also_where_nothing_changes(site: Site) -> None:
    site.pages["/feed"] = rss(*"987654321")
    plugin = feed(site, max_items=4)
    assert [ids(plugin) for _ in range(4)] == [list("1234"), list("5678"), ["9"], []]


def test_the_first_poll_is_silent_where_the_operator_says_so(site: Site) -> None:
    site.pages["/feed"] = rss("2", "1")
    plugin = feed(site, skip_first=True)
    assert ids(plugin) == []
    site.pages["/feed"] = rss("3", "2", "1")
    assert ids(plugin) == ["3"]


def test_another_url_is_another_feed(site: Site) -> None:
    site.pages |= {"/feed": rss("1"), "/other": rss("1")}
    plugin = feed(site)
    (first,) = plugin.poll().events
    plugin.config["url"] = f"{site.url}/other"
    (second,) = plugin.poll().events
    assert first["dedupe_key"] != second["dedupe_key"]


ATOM = b"""<?xml version="1.0"?><feed xmlns="http://www.w3.org/2005/Atom"><title>Log</title>
<entry><id>urn:1</id><title type="html">&lt;b&gt;One</title><link rel="edit" href="/e"/>
<link href="http://x.example/1"/><author><name>Ann</name></author><updated>2026-01-01T00:00:00Z
</updated><published>2026-01-01T00:00:00Z</published><content>All of it</content>
<category term="a"/></entry></feed>"""
ATOM_ITEM = {
    "id": "urn:1",
    "title": "<b>One",
    "url": "http://x.example/1",
    "summary": "All of it",
    "author": "Ann",
    "published": "2026-01-01T00:00:00Z",
    "updated": "2026-01-01T00:00:00Z",
    "categories": ["a"],
    "feed": "Log",
}
RDF = b"""<rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#"
xmlns="http://purl.org/rss/1.0/"><channel><title>Old</title></channel>
<item rdf:about="urn:1"><title>One</title><link>http://x.example/1</link></item></rdf:RDF>"""
RDF_ITEM = {"id": "urn:1", "title": "One", "url": "http://x.example/1", "feed": "Old"}
JSON_FEED = json.dumps(
    {
        "version": "https://jsonfeed.org/version/1.1",
        "title": "J",
        "items": [{"id": 7, "url": "http://x.example/7", "content_text": "t", "tags": ["a"]}],
    }
).encode()
JSON_ITEM = {
    "id": "7",
    "url": "http://x.example/7",
    "summary": "t",
    "categories": ["a"],
    "feed": "J",
}


@pytest.mark.parametrize(
    ("page", "item"),
    [(ATOM, ATOM_ITEM), (RDF, RDF_ITEM), (JSON_FEED, JSON_ITEM)],
    ids=["atom", "rss-1.0", "json-feed"],
)
def test_every_form_of_feed_is_read(site: Site, page: bytes, item: dict[str, Any]) -> None:
    site.pages["/feed"] = page
    assert feed(site).poll().payloads == [item]


def test_items_of_other_json_are_found_where_the_operator_says(site: Site) -> None:
    entries = [{"meta": {"key": "a"}, "n": 1}, {"meta": {"key": "b"}, "n": 2}]
    site.pages["/feed"] = json.dumps({"data": {"entries": entries}}).encode()
    plugin = feed(site, items="data.entries", id="meta.key", event_type="row")
    found = plugin.poll()
    assert [event["type"] for event in found.events] == ["row", "row"]
    assert found.payloads == [{"id": "b", "item": entries[1]}, {"id": "a", "item": entries[0]}]
    entries[0]["n"] = 3  # its name is the same
    site.pages["/feed"] = json.dumps({"data": {"entries": entries}, "more": 1}).encode()
    assert ids(plugin) == []


def test_json_without_a_list_is_new_when_it_changes(site: Site) -> None:
    site.pages["/feed"] = b'{"temperature": 20}'
    plugin = feed(site)
    assert [each["item"] for each in plugin.poll().payloads] == [{"temperature": 20}]
    assert ids(plugin) == []
    site.pages["/feed"] = b'{"temperature": 21.5}'
    assert [each["item"] for each in plugin.poll().payloads] == [{"temperature": 21.5}]


def test_a_file_is_a_feed_too(tmp_path: Path) -> None:
    file = tmp_path / "feed.xml"
    file.write_bytes(rss("1"))
    plugin = Plugin("feed", {"url": file.as_uri()})
    assert ids(plugin) == ["1"]
    assert ids(plugin) == []
    file.unlink()
    error, retry = plugin.fails()
    assert ("can't be read" in error, retry) == (True, True)


@pytest.mark.parametrize(
    ("status", "retry"), [(404, False), (401, False), (429, True), (500, True), (503, True)]
)
def test_an_answer_says_whether_another_attempt_may_help(
    site: Site, status: int, retry: bool
) -> None:
    site.pages["/feed"] = b""
    site.statuses["/feed"] = status
    error, wanted = feed(site).fails()
    assert (f"the server answers {status}" in error, wanted) == (True, retry)


@pytest.mark.parametrize(
    ("said", "after_s"),
    [("7", 7), ("86400", 3600), ("9" * 5000, 3600), ("soon", None), ("-1", None)],
)
def test_the_servers_own_words_and_the_pause_that_it_asks_for_are_told(
    site: Site, said: str, after_s: int | None
) -> None:
    """Issue 19, item 13."""
    site.pages["/feed"] = b'{"error":\n "slow down"}' + b" " * 200_000
    site.statuses["/feed"] = 429
    site.headers["/feed"] = {"Retry-After": said}
    response = feed(site).ask("poll").response
    assert response["error"] == 'the server answers 429 Too Many Requests: {"error": "slow down"}'
    assert response.get("retry_after_s") == after_s


@pytest.mark.parametrize("said", [b"", b"HTTP/1.1 502 Bad Gateway\r\nContent-Length: 9\r\n\r\nno"])
def test_a_connection_that_breaks_off_is_told_in_a_line_and_tried_again(said: bytes) -> None:
    """Issue 19, item 13."""
    with breaking_off(said) as url:
        error, retry = Plugin("feed", {"url": url}).fails()
    told = "the server answers 502 Bad Gateway: no" if said else "the feed can't be read: "
    assert (error.startswith(told), retry, error.count("\n")) == (True, True, 0)


def test_a_server_that_is_not_there_is_tried_again(site: Site) -> None:
    assert Plugin("feed", {"url": "http://127.0.0.1:1/"}).fails()[1]


def test_secrets_of_headers_reach_no_other_place(site: Site) -> None:
    """They go to the server that is named, and to none that it leads to; no event has the URL."""
    site.pages |= {"/feed?key=hidden": b"", "/other": rss("1")}
    site.statuses["/feed?key=hidden"] = 302
    site.headers["/feed?key=hidden"] = {"Location": f"{site.url}/other"}
    plugin = feed(site, headers={"Authorization": "Bearer hidden"})
    plugin.config["url"] += "?key=hidden"
    found = plugin.poll()
    assert [each.headers.get("Authorization") for each in site.asked] == ["Bearer hidden", None]
    assert "hidden" not in json.dumps(found.response)
    site.statuses["/feed?key=hidden"] = 404
    assert "hidden" not in plugin.fails()[0]


def test_no_server_leads_out_of_http_nor_from_elsewhere_to_this_machine(site: Site) -> None:
    """A proxy of this machine answers for the server that is elsewhere."""
    away = "http://1.1.1.1/feed"
    site.pages |= {"/feed": b"", away: b"", f"{site.url}/other": rss("1"), "/other": rss("1")}
    site.statuses |= {"/feed": 302, away: 302}
    site.headers["/feed"] = {"Location": "ftp://127.0.0.1/feed?key=hidden"}
    told = "the server leads to {}, which is not followed"
    assert feed(site).fails() == (told.format("ftp://127.0.0.1"), False)
    plugin = Plugin("feed", {"url": away}, http_proxy=site.url)
    site.headers[away] = {"Location": f"{site.url}/other"}
    assert plugin.fails() == (told.format("http://127.0.0.1"), False)
    site.headers[away] = {"Location": "http://1.0.0.1/feed"}
    site.pages["http://1.0.0.1/feed"] = rss("1")
    assert ids(plugin) == ["1"]


@pytest.mark.parametrize(
    ("page", "told"),
    [
        (b"", "neither JSON nor XML"),
        (b"<html><body/></html>", "'html' is no feed"),
        (b"{", "not JSON"),
        (b'{"a": NaN}', "NaN is no number"),
        (b'{"a": 1e999}', "1e999 is no number"),
        (b"[" * 100_000, "not JSON"),
        (
            b"<rss><channel><item>%b%b</item></channel></rss>" % (b"<a>" * 9999, b"</a>" * 9999),
            "recursion",
        ),
        (b"<!DOCTYPE a [<!ENTITY b 'c'>]><rss/>", "defines entities"),
        ("<?xml version='1.0'?><!DOCTYPE a [<!ENTITY b 'c'>]><rss/>".encode("utf-16"), "entities"),
    ],
)
def test_what_is_no_feed_is_refused_in_a_line(site: Site, page: bytes, told: str) -> None:
    site.pages["/feed"] = page
    assert told in feed(site).fails()[0]


def test_a_feed_that_is_too_large_is_refused(site: Site) -> None:
    site.pages["/feed"] = rss("1")
    error, retry = feed(site, max_bytes=100).fails()
    assert (error, retry) == ("the feed is larger than max_bytes, 100", False)


def test_any_text_of_a_feed_is_published_as_text(site: Site) -> None:
    """Half a surrogate pair, which JSON can name, is no text: the answer stays JSON."""
    site.pages["/feed"] = rb'[{"id": "\ud800", "text": "\u001b[31m"}]'
    assert feed(site).poll().payloads == [{"id": "?", "item": {"id": "?", "text": "\x1b[31m"}}]


@pytest.mark.parametrize(
    ("config", "told"),
    [
        ({"url": "ftp://x"}, "url: write http"),
        ({"url": "/etc/passwd"}, "url: write http"),
        ({"url": "http://x/a b"}, "url: write what is no plain letter as %XX"),
        ({"url": 5}, "url: write a text"),
        ({"headers": {"A b": "c"}}, "headers: 'A b'"),
        ({"headers": {"A": "b\nC: d"}}, "headers: 'A': write one line"),
        ({"max_items": 0}, "max_items: write a number from 1"),
        ({"remember": "many"}, "remember: write a number from 1"),
        ({"skip_first": "yes"}, "skip_first: write true or false"),
    ],
)
def test_a_wrong_setting_ends_the_attempts_and_says_what_to_write(
    config: dict[str, Any], told: str
) -> None:
    for command in ("init", "poll", "health"):
        assert told in Plugin("feed", {"url": "http://x.example"} | config).refused(command)


def test_health_says_what_is_there(site: Site) -> None:
    site.pages["/feed"] = rss("1", "2")
    assert feed(site).ask("health").response["result"] == "the feed has 2 items"
