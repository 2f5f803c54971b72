"""Live updates of the page: nothing is missed, whatever happens to it and to its connection."""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, CDPSession, Page, Route, expect

from ackbus import Bus, Draft, Inbox

from ..conftest import wait_until
from .browsing import CHROMIUM, Visit, rows, wait_for_live
from .conftest import serving

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        CHROMIUM is None, reason="no chromium here: apt-get install chromium-headless-shell"
    ),
]

#: Makes a tab believe that another is looked at, or that it is again.
HIDE = """(isHidden) => {
  Object.defineProperty(document, "hidden", { configurable: true, value: isHidden });
  document.dispatchEvent(new Event("visibilitychange"));
}"""


@pytest.fixture(scope="module")
def url(one_bus: Bus) -> Iterator[str]:
    """The address of this module's bus."""
    with serving(Path(one_bus.layout.directory)) as url:
        yield url


#: Counts the batches that the stream of a page hands to its views.
COUNT_BATCHES = """() => {
  const dispatch = EventTarget.prototype.dispatchEvent;
  window.batches = 0;
  EventTarget.prototype.dispatchEvent = function (event) {
    if (event.type === "messages") window.batches += 1;
    return dispatch.call(this, event);
  };
}"""

VIEWS = ("conversations", "conversation/x", "agents", "inboxes", "queues", "compose", "timeline")


def test_tabs_that_nobody_looks_at_leave_the_connections_to_others(
    browser: Browser, url: str, one_bus: Bus
) -> None:
    """A browser has six connections to a server, for all its tabs together."""
    with browser.new_context() as context:
        behind = [context.new_page() for _ in range(6)]
        for page in behind:
            page.goto(url)
            wait_for_live(page)
            page.evaluate(HIDE, True)
        page = context.new_page()
        page.goto(url)
        wait_for_live(page)
        receipt = one_bus.publish("while.away", from_agent="lead")
        behind[0].evaluate(HIDE, False)
        for each in (page, behind[0]):
            expect(rows(each).first.locator(".seq")).to_have_text(str(receipt.seq))


def test_who_was_away_for_long_reads_the_newest_and_not_all(
    visit: Visit, url: str, one_bus: Bus
) -> None:
    page = visit(url)
    wait_for_live(page)
    page.evaluate(HIDE, True)
    for _ in range(3):
        one_bus.publish_many([Draft("burst", from_agent="lead")] * 7000)
    page.evaluate(HIDE, False)
    newest = page.locator(".list .row[aria-posinset='1']")
    expect(newest.locator(".seq")).to_have_text(str(one_bus.log.newest_seq()))
    expect(newest).to_have_attribute("aria-setsize", "200")
    receipt = one_bus.publish("live.again", from_agent="lead")
    expect(newest.locator(".seq")).to_have_text(str(receipt.seq))


def test_more_unread_messages_than_are_counted_have_a_plus(
    visit: Visit, url: str, one_bus: Bus
) -> None:
    Inbox(one_bus, "ada").join()
    one_bus.publish_many([Draft("t", from_agent="lead")] * 1000)
    page = visit(f"{url}/#/agents")
    for view in ("agents", "inboxes"):
        page.goto(f"{url}/#/{view}")
        expect(page.get_by_role("row").filter(has_text="ada")).to_contain_text("1,000+")


def test_what_comes_while_a_view_reads_is_not_missed(visit: Visit, url: str, one_bus: Bus) -> None:
    page = visit(f"{url}/#/agents")
    wait_for_live(page)
    page.evaluate(COUNT_BATCHES)

    def answer_late(route: Route) -> None:
        answer = route.fetch()
        one_bus.publish("came.meanwhile", from_agent="lead")
        wait_until(lambda: page.evaluate("window.batches") > 0)
        route.fulfill(response=answer)

    page.route("**/v1/newest?limit=1000", answer_late, times=1)
    page.goto(f"{url}/#/conversations")
    expect(page.get_by_role("link", name="came.meanwhile")).to_be_visible()


def test_view_that_could_not_be_read_is_read_when_there_is_a_connection_again(
    visit: Visit, bus: Bus, bus_dir: Path
) -> None:
    first = bus.publish("first", from_agent="lead")
    with serving(bus_dir) as url:
        page = visit(url)
        wait_for_live(page)
    for view in ("queues", "conversations", f"conversation/{first.id}"):
        page.evaluate("view => { location.hash = `#/${view}` }", view)
        expect(page.locator(".notice")).to_contain_text("the server can't be reached")
    bus.publish("second", from_agent="lead", correlation_id=first.id)
    with serving(bus_dir, "--port", url.rpartition(":")[2]):
        expect(page.locator(".sequence .step")).to_have_count(2)
        expect(page.locator(".notice")).to_be_hidden()


def test_earlier_messages_of_a_conversation_leave_what_is_seen_in_its_place(
    visit: Visit, url: str, one_bus: Bus
) -> None:
    first = one_bus.publish("long.first", from_agent="lead")
    drafts = [Draft("long.step", from_agent="lead", correlation_id=first.id)] * 250
    seen = one_bus.publish_many(drafts)[-1].seq
    page = visit(f"{url}/#/conversation/{first.id}")
    steps = page.locator(".sequence .step")
    expect(steps).to_have_count(200)
    last = page.locator(f".step[data-seq='{seen}']")
    expect(last).to_be_in_viewport()
    page.get_by_role("button", name="Earlier").dblclick()
    expect(steps).to_have_count(251)
    expect(last).to_be_in_viewport()


def test_drawing_stays_bounded_while_its_end_is_not_looked_at(
    visit: Visit, url: str, one_bus: Bus
) -> None:
    def publish(count: int) -> int:
        drafts = [Draft("far.step", from_agent="lead", correlation_id="far")] * count
        return one_bus.publish_many(drafts)[-1].seq

    publish(100)
    page = visit(f"{url}/#/conversation/far")
    wait_for_live(page)
    steps = page.locator(".sequence .step")
    expect(steps).to_have_count(100)
    page.locator(".sequence").evaluate("drawing => drawing.scrollTo(0, 0)")
    publish(600)
    expect(steps).to_have_count(700)
    publish(1)
    expect(page.get_by_text("700+ messages")).to_be_visible()
    last = publish(500)
    page.locator(".sequence").evaluate("drawing => drawing.scrollTo(0, drawing.scrollHeight)")
    expect(page.locator(f".step[data-seq='{last}']")).to_be_in_viewport()
    expect(steps).to_have_count(200)


def test_views_that_were_left_leave_nothing_behind(one_bus: Bus, visit: Visit, url: str) -> None:
    one_bus.publish("t", from_agent="a")
    page = visit(url)
    wait_for_live(page)
    devtools = page.context.new_cdp_session(page)

    def go_round() -> None:
        for view in VIEWS * 3:
            page.evaluate("view => { location.hash = `#/${view}` }", view)  # and don't wait for it
        expect(rows(page).first).to_be_visible()

    go_round()
    before = listeners_of_stream(page, devtools)
    go_round()
    go_round()
    wait_until(lambda: listeners_of_stream(page, devtools) == before)


def listeners_of_stream(page: Page, devtools: CDPSession) -> int:
    """The number of listeners of a page's one stream."""
    made = devtools.send(
        "Runtime.evaluate",
        {
            "expression": "import('/page/live.js').then(({ Live }) => Live.prototype)",
            "awaitPromise": True,
        },
    )
    prototype = made["result"]["objectId"]
    found = devtools.send("Runtime.queryObjects", {"prototypeObjectId": prototype})["objects"]
    (stream,) = [
        each["value"]["objectId"]
        for each in devtools.send(
            "Runtime.getProperties", {"objectId": found["objectId"], "ownProperties": True}
        )["result"]
        if each["name"].isdigit()
    ]
    return len(devtools.send("DOMDebugger.getEventListeners", {"objectId": stream})["listeners"])


def test_each_new_row_is_lit_once(visit: Visit, url: str, one_bus: Bus) -> None:
    page = visit(url)
    wait_for_live(page)
    page.evaluate("""() => {
      window.lit = [];
      addEventListener("animationstart", ({ target }) => {
        window.lit.push(Number(target.querySelector(".seq").textContent));
      });
    }""")
    seqs = [one_bus.publish("new", from_agent="lead").seq for _ in range(3)]
    wait_until(lambda: sorted(page.evaluate("window.lit")) == seqs)
    seqs.append(one_bus.publish("newer", from_agent="lead").seq)
    wait_until(lambda: sorted(page.evaluate("window.lit")) == seqs)


def test_list_stays_bounded_while_what_comes_is_not_looked_at(
    visit: Visit, url: str, one_bus: Bus
) -> None:
    page = visit(f"{url}/#/timeline?type=unseen")
    wait_for_live(page)
    one_bus.publish_many([Draft("unseen", from_agent="lead")] * 100)
    new = page.get_by_role("button", name="new")
    page.locator(".list .row[aria-setsize='100']").first.wait_for()
    page.locator(".list").evaluate("list => list.scrollTo(0, 1500)")
    for sent in range(7000, 42_001, 7000):
        one_bus.publish_many([Draft("unseen", from_agent="lead")] * 7000)
        expect(new).to_have_text(f"{sent:,} new", timeout=60_000)
    assert int(rows(page).first.get_attribute("aria-setsize") or 0) < 30_000
    new.click()
    newest = page.locator(".list .row[aria-posinset='1']")
    expect(newest.locator(".seq")).to_have_text(str(one_bus.log.newest_seq()))
    expect(new).to_be_hidden()
    receipt = one_bus.publish("unseen", from_agent="lead")
    expect(newest.locator(".seq")).to_have_text(str(receipt.seq))


def test_busy_bus_is_asked_for_its_inboxes_a_few_times_a_second(
    visit: Visit, bus: Bus, bus_dir: Path
) -> None:
    asked: list[str] = []
    bus.publish("hello", from_agent="coder")  # which is no mail of its own
    bus.publish("hello", from_agent="lead")
    bus.publish("first", from_agent="lead", to_agent="coder")
    with serving(bus_dir) as url:
        page = visit(f"{url}/#/inboxes")
        wait_for_live(page)
        unread = page.get_by_role("row").filter(has_text="coder").get_by_role("cell").nth(1)
        expect(unread).to_have_text("2")
        page.on("request", lambda request: asked.append(request.url))
        began = time.monotonic()
        for _ in range(300):
            bus.publish("next", from_agent="lead", to_agent="coder")
            page.evaluate("0")  # and no faster than the page can follow
        expect(unread).to_have_text("302")
        assert 0 < len(asked) <= (time.monotonic() - began) / 0.25 + 2
