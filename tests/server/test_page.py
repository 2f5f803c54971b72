"""The page, in a real browser, served by a real process."""

import json
import re
import shlex
import socket
import sqlite3
import struct
import time
import warnings
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import httpx
import pytest
from playwright.sync_api import Browser, Locator, Page, Route, expect

from ackbus import Bus, Draft
from ackbus.schema.errors import UnknownRecipientWarning
from ackbus.schema.message.patterns import TypePattern
from ackbus.server.access.tokens import Scope, Tokens
from ackbus.subscribers.inboxes.inbox import Inbox
from ackbus.subscribers.jobs.claims import Outcome
from ackbus.subscribers.jobs.jobs import Jobs
from ackbus.subscribers.queues.queue import Queue

from ..conftest import RunBus, wait_until
from ..sizes import sampled, size
from . import scene
from .browsing import CHROMIUM, Visit, rows, wait_for_live
from .conftest import serving
from .screenshots import OPENING, PICTURES, conversation_page

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        CHROMIUM is None, reason="no chromium here: apt-get install chromium-headless-shell"
    ),
]

STATIC = Path(__file__).parents[2] / "server" / "page" / "static"

#: Every view, by what stands behind the # in its address.
VIEWS = (
    *("timeline", "conversations", "agents", "inboxes", "inbox/lead", "queues", "queue/review"),
    *("holds", "compose"),
)

#: More elements than this has no view of the timeline, however long the log is.
MAX_ELEMENTS = 1200


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bus]:
    """A bus that tests share which don't mind what else is in it."""
    with Bus.init(tmp_path_factory.mktemp("project-with-a-long-name") / ".worker-state") as opened:
        yield opened


@pytest.fixture(scope="module")
def conversation(shared: Bus) -> str:
    """The conversation of a project that is at work on the shared bus."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UnknownRecipientWarning)
        return scene.fill(shared)


@pytest.fixture(scope="module")
def url(shared: Bus, conversation: str) -> Iterator[str]:
    """The address of the shared bus."""
    with serving(Path(shared.layout.directory)) as url:
        yield url


def test_the_picture_of_the_readme_is_a_whole_conversation(
    browser: Browser, url: str, conversation: str
) -> None:
    """It is made as `python -m tests.server.screenshots --write` makes it."""
    page = conversation_page(browser, url, conversation)
    for step in page.locator(".sequence .step").all():
        expect(step).to_be_in_viewport(ratio=1)
    expect(page.locator(".detail")).to_contain_text("upgrade of an empty file")
    kept = (PICTURES / "page-conversation.png").read_bytes()
    size_of_png = struct.Struct(">II")  # in the header, after 16 bytes
    assert size_of_png.unpack_from(kept, 16) == (OPENING["width"], OPENING["height"])
    assert size_of_png.unpack_from(page.screenshot(), 16) == size_of_png.unpack_from(kept, 16)
    page.context.close()
    readme = (PICTURES.parents[1] / "README.md").read_text("utf-8")
    assert re.findall(r"!\[[^\]]+\]\((.*?)\)", readme) == ["docs/pictures/page-conversation.png"]


def test_timeline_shows_messages_as_another_process_publishes_them(
    visit: Visit, url: str, shared: Bus
) -> None:
    page = visit(url)
    wait_for_live(page)
    receipt = shared.publish("task.done", {"n": 1}, from_agent="lead", to_agent="coder")
    row = rows(page).first
    expect(row.locator(".seq")).to_have_text(str(receipt.seq))
    expect(row.locator(".type")).to_have_text("task.done")
    row.click()
    expect(page.locator(".detail .payload")).to_contain_text('"n": 1')
    expect(page.locator(".detail .receipts")).to_contain_text("unreadcoder")


def test_timeline_filters_what_is_there_and_what_comes(
    visit: Visit, url: str, shared: Bus, conversation: str
) -> None:
    page = visit(f"{url}/#/timeline?type=test.*&agent=tester&conversation={conversation}")
    expect(rows(page)).to_have_count(4)
    wait_for_live(page)
    shared.publish("test.done", from_agent="tester", to_agent="lead")  # another conversation
    answer = Draft("test.done", from_agent="tester", correlation_id=conversation)
    receipt = shared.publish_many([answer])[0]
    expect(rows(page)).to_have_count(5)
    expect(rows(page).first.locator(".seq")).to_have_text(str(receipt.seq))


def test_names_of_agents_are_completed_and_both_are_seen(
    visit: Visit, url: str, shared: Bus
) -> None:
    page = visit(f"{url}/#/timeline?type=long.names")
    field = page.get_by_label("Agent")
    field.focus()
    expect(page.locator("datalist option[value='docs-writer']")).to_have_count(1)
    assert field.evaluate("field => field.list.options.length") > 3
    expect(page.get_by_text("Nothing fits.")).to_be_in_viewport()
    list_, empty = (page.locator(each).bounding_box() for each in (".list", ".lists"))
    assert list_ == empty  # the list has all of its room, also while it is empty
    first, second = "n" * 90, "m" * 90
    for name in (first, second):
        shared.publish("hello", from_agent=name)
    for sender, recipient in (("coder", first), (first, second)):
        shared.publish("long.names", from_agent=sender, to_agent=recipient)
    expect(rows(page)).to_have_count(2)
    both_long, one_long = (
        row.locator(".who .cut").evaluate_all("names => names.map((each) => each.clientWidth)")
        for row in (rows(page).first, rows(page).last)
    )
    assert abs(both_long[0] - both_long[1]) <= 2
    assert both_long[0] > 60
    expect(rows(page).last.locator(".cut").first).to_have_js_property("scrollWidth", one_long[0])
    page.goto(f"{url}/#/timeline?type=plan.proposed")
    expect(rows(page)).to_have_count(1)
    for width in (1280, 390):  # a short name is followed at once
        page.set_viewport_size({"width": width, "height": 700})
        wait_until(lambda: all(0 < gap < 10 for gap in rows(page).evaluate(GAPS)))


#: How far the arrow of a row is from the sender's name, and the recipient's from it.
GAPS = """row => {
  const boxes = [...row.querySelector(".who").children].map((each) => each.getBoundingClientRect());
  return [boxes[1].left - boxes[0].right, boxes[2].left - boxes[1].right];
}"""


def test_page_understands_patterns_as_the_bus_does(visit: Visit, url: str) -> None:
    patterns = ("task", "task.*", "task.>", "*", ">", "*.done", "task.*.>")
    types = ("task", "task.done", "task.done.late", "other", "other.done")
    cases = [[pattern, type] for pattern in patterns for type in types]
    found = visit(url).evaluate(
        "async (cases) => { const { typeFits } = await import('/page/filters.js');"
        " return cases.map((each) => typeFits(...each)); }",
        cases,
    )
    assert found == [TypePattern(pattern).matches(type) for pattern, type in cases]


def test_characters_that_turn_text_or_act_on_a_terminal_are_named(visit: Visit, url: str) -> None:
    found = visit(url).evaluate(
        "async (text) => (await import('/page/format.js')).visible(text)",
        "a\u202eb\u061cc\x1bd \n שלום",
    )
    assert found == "a\\u202eb\\u061cc\\u001bd \n שלום"


def test_search_finds_words_and_marks_them(visit: Visit, url: str) -> None:
    page = visit(url)
    page.keyboard.press("/")
    page.keyboard.type('migration "0007"')
    page.keyboard.press("Enter")
    expect(rows(page)).to_have_count(1)
    expect(rows(page).locator("mark").first).to_have_text("migration")


def test_keyboard_alone_is_enough(visit: Visit, url: str) -> None:
    page = visit(url)
    expect(rows(page).first).to_be_visible()
    # Some versions of Chromium would begin at the link of the view that the address names.
    page.evaluate("document.body.tabIndex = -1, document.body.focus()")
    page.keyboard.press("Tab")
    expect(page.locator(".skip")).to_be_focused()
    page.keyboard.press("j")
    first = page.locator(".detail h2").inner_text()
    page.keyboard.press("j")
    page.keyboard.press("k")
    expect(page.locator(".detail h2")).to_have_text(first)
    page.keyboard.press("c")
    expect(page.locator(".sequence .step").first).to_be_visible()
    page.keyboard.press("?")
    expect(page.get_by_role("dialog")).to_contain_text("Keyboard")
    page.keyboard.press("Escape")
    page.keyboard.press("6")
    expect(page.get_by_role("heading", name="Leases and reservations")).to_be_visible()


def test_conversation_is_drawn_and_followed(
    visit: Visit, url: str, shared: Bus, conversation: str
) -> None:
    page = visit(f"{url}/#/conversation/{conversation}")
    steps = page.locator(".sequence .step")
    expect(steps.nth(9)).to_be_visible()
    wait_for_live(page)
    before = steps.count()
    names = page.locator(".sequence .heads title").all_text_contents()
    assert names == ["lead", "reviewer", "coder", "tester", "everyone"]
    expect(steps.nth(0)).to_contain_text("goal: Move the store")
    answer = Draft("plan.done", from_agent="lead", to_agent="coder", correlation_id=conversation)
    shared.publish_many([answer])
    expect(steps).to_have_count(before + 1)
    steps.last.click()
    expect(page.locator(".detail h2")).to_have_text("plan.done")


def test_dead_letter_is_requeued(visit: Visit, url: str, shared: Bus) -> None:
    page = visit(f"{url}/#/queues")
    page.get_by_label("Queue review").get_by_role("link", name="2 dead").click()
    button = page.get_by_role("button", name=re.compile(r"^Requeue \d")).first
    seq = int((button.get_attribute("aria-label") or "").split()[1])
    page.get_by_role("button", name=f"Job {seq}").click()
    expect(page.locator(".attempt")).to_have_count(2)
    button.click()
    expect(page.locator(".notice")).to_contain_text(f"{seq} is queued again")
    expect(page.get_by_role("button", name=f"Requeue {seq}")).to_have_count(0)
    queue = Queue.open(shared, "review")
    assert Jobs.of(shared).get(queue.info, seq).state == "queued"


def test_job_is_cancelled_and_tried_again(visit: Visit, url: str, shared: Bus) -> None:
    queue = Queue.create(shared, "deploy", "deploy.request")
    seq = shared.publish("deploy.request", from_agent="lead").seq
    queue.claim("deployer-1")
    jobs = Jobs.of(shared)
    page = visit(f"{url}/#/queues")
    running = page.get_by_label("Queue deploy").get_by_role("link", name="1 running for up to")
    running.click()
    page.get_by_role("button", name=f"Cancel {seq}").click()
    page.get_by_role("button", name="Cancel the job").click()
    wait_until(lambda: jobs.get(queue.info, seq).state == "cancelled")
    page.goto(f"{url}/#/queue/deploy")
    row = page.get_by_role("table", name="Jobs").get_by_role("row").last
    expect(row.get_by_role("cell").nth(5)).to_be_empty()  # it took no time that is known
    row.get_by_text("deploy.request").click()
    expect(page.get_by_label(f"Job {seq}", exact=True).locator(".facts")).to_contain_text(
        "cancelled"
    )
    page.get_by_role("button", name=f"Retry {seq}").click()
    expect(page.locator(".notice")).to_contain_text(f"{seq} is queued again")
    expect(page.locator(".facts")).to_contain_text("queued")
    assert jobs.get(queue.info, seq).state == "queued"


def test_focus_stays_while_the_records_around_it_change(
    visit: Visit, url: str, shared: Bus
) -> None:
    page = visit(f"{url}/#/queue/build")
    queue = Queue.open(shared, "build")
    jobs = page.get_by_role("table", name="Jobs").get_by_role("row")
    waiting = page.get_by_role("link", name="waiting")
    for focused in (jobs.last.get_by_role("button", name="Job"), waiting):
        focused.focus()
        before = jobs.count()
        shared.publish("build.request", from_agent="lead")
        expect(jobs).to_have_count(before + 1)
        expect(focused).to_be_focused()
    claim = queue.claim("builder-2", limit=1)[0]
    page.get_by_role("button", name=f"Job {claim.message.seq}").click()
    expect(page.locator(".attempt")).to_contain_text("builder-2")
    expect(page.locator(".attempt")).to_contain_text("active")
    queue.end(claim, Outcome(result={"wheel": "made"}, stderr="a warning"))
    expect(page.locator(".attempt")).to_contain_text("completed")
    expect(page.locator(".attempt pre")).to_have_text(["a warning", '{"wheel":"made"}'])
    page.get_by_role("button", name="Close").click()
    expect(page.get_by_role("button", name=f"Job {claim.message.seq}")).to_be_focused()


def test_parked_message_is_delivered_again(visit: Visit, url: str, shared: Bus) -> None:
    page = visit(f"{url}/#/inbox/lead")
    parked = page.get_by_role("table", name="Parked messages")
    parked.get_by_text("no handler knows this type").click()
    expect(page.locator(".detail .payload")).to_contain_text("step 0 is through")
    page.keyboard.press("Escape")
    expect(page.locator(".detail")).to_have_count(0)
    page.get_by_role("button", name="Deliver again").click()
    expect(page.locator(".notice")).to_contain_text("delivered to lead again")
    expect(page.get_by_text("Nothing is parked.")).to_be_visible()
    assert Inbox(shared, "lead").poll(1)[0].seq == 1


def test_names_with_slashes_are_shown(visit: Visit, bus: Bus, bus_dir: Path) -> None:
    Queue.create(bus, "team/build", "build")
    bus.publish("note", "hello", from_agent="team/x")
    bus.publish("note", "to a team", from_agent="lead", to_agent="team/x")
    with serving(bus_dir) as url:
        page = visit(f"{url}/#/inbox/team%2Fx")
        expect(page.locator(".view")).to_contain_text("to a team")
        page.goto(f"{url}/#/queues")
        page.get_by_role("link", name="team/build").first.click()
        expect(page.get_by_role("heading", name="team/build")).to_be_visible()


def test_views_show_who_is_there_and_what_is_held(visit: Visit, url: str) -> None:
    page = visit(f"{url}/#/agents")
    coder = page.get_by_role("row").filter(has_text="schema 7")
    expect(coder).to_contain_text("working")
    expect(coder).to_contain_text("80%")
    page.goto(f"{url}/#/inboxes")
    expect(page.get_by_role("row").filter(has_text="docs-writer")).to_be_visible()
    page.goto(f"{url}/#/holds")
    expect(page.get_by_text("database/migration")).to_be_visible()
    expect(page.get_by_text("tests/migration/**")).to_be_visible()
    page.goto(f"{url}/#/queues")
    expect(page.get_by_label("Queue review").locator(".plot")).to_have_count(3)
    page.goto(f"{url}/#/conversations")
    expect(page.get_by_role("link", name="plan.proposed")).to_be_visible()
    page.keyboard.press("/")
    page.keyboard.type("DOCS-writer")
    expect(page.get_by_role("link", name="plan.proposed")).to_be_hidden()
    expect(page.get_by_role("row").filter(has_text="docs-writer").first).to_be_visible()
    page.get_by_label("Filter conversations").fill("none of that")
    expect(page.get_by_text("No conversation fits.")).to_be_visible()


def test_person_writes_a_message(visit: Visit, url: str, shared: Bus) -> None:
    page = visit(f"{url}/#/compose?reply=3")
    expect(page.get_by_label("To: an agent")).to_have_value("reviewer")
    page.get_by_label("From:").fill("ada")
    page.get_by_label("Payload").fill('{"go": true}')
    page.get_by_role("button", name="Publish").click()
    expect(page.locator(".said")).to_contain_text("Published as")
    (message,) = shared.log.newest(1)
    asked = shared.get(3)
    assert asked is not None
    assert (message.from_agent, message.to_agent) == ("ada", "reviewer")
    assert (message.payload, message.in_reply_to) == ({"go": True}, asked.id)


def test_person_is_asked_about_what_may_be_a_slip(visit: Visit, url: str, shared: Bus) -> None:
    page = visit(f"{url}/#/compose")
    publish = page.get_by_role("button", name="Publish", exact=True)
    last = shared.log.newest_seq()
    page.get_by_label("Type").press("Enter")
    expect(page.get_by_role("dialog")).to_contain_text("without a payload")
    page.get_by_role("button", name="Leave it").click()
    page.get_by_role("textbox", name="Payload").fill('{"a": 1,')
    expect(page.locator("label").get_by_text("not JSON")).to_have_class(re.compile("bad"))
    publish.click()
    page.get_by_role("button", name="Leave it").click()
    expect(page.get_by_role("dialog")).to_have_count(0)
    assert shared.log.newest_seq() == last
    publish.click()
    page.get_by_role("button", name="Publish as text").click()
    expect(page.locator(".said")).to_contain_text(f"Published as {last + 1}")
    assert shared.log.newest(1)[0].payload == '{"a": 1,'


def test_message_whose_answer_was_lost_is_sent_again_or_changed(
    visit: Visit, url: str, shared: Bus
) -> None:
    def lose_answer(route: Route) -> None:
        route.fetch()
        route.abort()

    page = visit(f"{url}/#/compose")
    publish = page.get_by_role("button", name="Publish")
    last = shared.log.newest_seq()
    for is_changed, seq in ((False, last + 1), (True, last + 3)):
        page.route("**/v1/messages", lose_answer, times=1)
        page.get_by_label("Payload").fill("as it was")
        publish.click()
        expect(page.locator(".notice")).to_be_visible()
        if is_changed:
            page.get_by_label("Payload").fill("changed")
        publish.click()
        expect(page.locator(".said")).to_contain_text(f"Published as {seq}")
        page.reload()


def test_integers_stay_as_they_are_written(visit: Visit, url: str, shared: Bus) -> None:
    """Pitfall 21: JavaScript rounds integers above 2^53."""
    number = 12345678901234567890
    page = visit(f"{url}/#/compose")
    page.get_by_label("Payload").fill(f'{{"id": {number}, "n": 1.0}}')
    page.get_by_role("button", name="Publish").click()
    expect(page.locator(".said")).to_contain_text("Published as")
    (message,) = shared.log.newest(1)
    assert message.payload == {"id": number, "n": 1.0}
    page.goto(f"{url}/#/timeline")
    expect(rows(page).first).to_contain_text(f"id: {number}")
    rows(page).first.click()
    expect(page.locator(".detail .payload")).to_contain_text(f'"id": {number}')


def test_blob_is_shown_and_what_is_long_is_folded(visit: Visit, url: str, shared: Bus) -> None:
    lines = [f"line {number}" for number in range(1000)]
    payload = {"lines": lines, "end": "here", "long": "a" * 99_999 + "bcd"}
    receipt = shared.publish("report", payload, from_agent="lead")
    page = visit(url)
    expect(rows(page).first.locator(".seq")).to_have_text(str(receipt.seq))
    rows(page).first.click()
    shown = page.locator(".detail .payload")
    expect(shown).to_contain_text('"end": "here"')
    assert "line 7" not in shown.inner_text()
    shown.get_by_role("button", name="[ 1000").click()
    shown.get_by_role("button", name="800 more").click()
    expect(shown).to_contain_text('"line 399"')
    expect(shown).not_to_contain_text("bcd")
    shown.get_by_role("button", name="4 more").click()
    expect(shown).to_contain_text('bcd"')
    with page.expect_download() as download:
        page.get_by_role("button", name="Save the blob").click()
    assert json.loads(Path(download.value.path()).read_bytes()) == payload


def test_blob_that_is_no_json_is_saved_as_it_is(visit: Visit, url: str, shared: Bus) -> None:
    content = b"\x89PNG" + bytes(1234)
    ref = shared.blobs.put(content)
    shared.publish("picture", payload_ref=ref, from_agent="lead")
    page = visit(f"{url}/#/timeline?type=picture")
    rows(page).first.click()
    expect(page.get_by_text("not JSON, 1,238 bytes")).to_be_visible()
    expect(page.locator(".detail .bad")).to_have_count(0)
    with page.expect_download() as download:
        page.get_by_role("button", name="Save the blob").click()
    assert Path(download.value.path()).read_bytes() == content


def test_stored_script_stays_text(visit: Visit, bus: Bus, bus_dir: Path) -> None:
    script, image = "<script>alert(1)</script>", "<img src=x onerror=alert(1)>"
    payload = {"script": script, image: "javascript:alert(1)", "svg": "<svg onload=alert(1)>"}
    bus.publish("note", payload, from_agent="lead", correlation_id=image)
    with closing(sqlite3.connect(bus_dir / "bus.db")) as foreign, foreign:
        foreign.execute(
            "INSERT INTO messages (id, ts_ms, from_agent, to_agent, type, payload, correlation_id)"
            " VALUES (?, ?, ?, ?, ?, ?, ?)",
            (script, 1, image, "javascript:alert(1)", script, json.dumps(image), image),
        )
    with serving(bus_dir) as url:
        page = visit(url)
        expect(rows(page)).to_have_count(2)
        expect(rows(page).first).to_contain_text(script)
        rows(page).first.click()
        expect(page.locator(".detail")).to_contain_text(image)
        page.get_by_role("link", name="Conversation", exact=True).click()
        expect(page.locator(".sequence .step")).to_have_count(2)
        page.locator(".sequence .step").first.click()
        expect(page.locator(".detail .payload")).to_contain_text("<svg onload=alert(1)>")
        for view in ("conversations", "agents", "inboxes", "inbox/x", f"queue/{script}"):
            page.goto(f"{url}/#/{view}")
            expect(page.locator(".view")).to_be_visible()
        page.goto(f"{url}/#/timeline?q=alert")
        expect(rows(page)).to_have_count(2)
        assert page.evaluate("document.scripts.length + document.images.length") == 2


def test_page_makes_no_markup_out_of_text() -> None:
    """Also without the policy: none of what reads text as markup or code stands in its files."""
    forbidden = re.compile(
        r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|DOMParser|createContextualFragment"
        r"|\beval\b|new Function|setTimeout\(['\"`]|srcdoc"
    )
    sources = {path.name: path.read_text("utf-8") for path in STATIC.rglob("*.js")}
    assert len(sources) > 20
    assert {name for name, text in sources.items() if forbidden.search(text)} == set()
    page = (STATIC / "index.html").read_text("utf-8")
    assert re.search(r" style=| on\w+=|<style|<script>|https?:", page) is None


def test_files_of_the_page_are_held_to_a_strict_policy(url: str) -> None:
    answer = httpx.get(url)
    policy = answer.headers["Content-Security-Policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert answer.headers["X-Content-Type-Options"] == "nosniff"
    assert httpx.get(f"{url}/page/..%2f..%2fapp.py").status_code == 404
    known = {"If-None-Match": answer.headers["ETag"]}
    assert httpx.get(url, headers=known).status_code == 304


def test_message_and_job_can_be_linked_to(visit: Visit, url: str) -> None:
    page = visit(f"{url}/#/inbox/lead")
    page.get_by_role("button", name="Message 2", exact=True).click()
    page.get_by_title("A link to this message").click()
    expect(page).to_have_url(f"{url}/#/timeline?message=2")
    expect(page.locator(".detail")).to_have_attribute("aria-label", "Message 2")
    expect(rows(page).first).to_be_visible()  # as the others
    page.go_back()
    expect(page.locator(".detail")).to_have_count(0)
    page.goto(f"{url}/#/queue/review")
    page.get_by_role("button", name="Job").first.click()
    page.get_by_title("A link to this job").click()
    expect(page).to_have_url(re.compile(r"/queue/review\?job=\d+$"))
    expect(page.locator(".detail .facts")).to_contain_text("review.request")


def test_times_have_a_line_in_each_language_and_time_zone(
    visit: Visit, url: str, conversation: str
) -> None:
    """Also those of another day, which have a date; on the narrow diagram the minute is enough."""
    wide = visit(url, locale="de-DE", timezone_id="Pacific/Kiritimati")
    wide.clock.set_fixed_time("2100-01-01")
    wide.goto(f"{url}/#/timeline?type=plan.*")
    times = wide.locator(".row .time")
    expect(times.first).to_have_text(re.compile(r"^\d+\. \w+\.? \d\d:\d\d$"))
    assert wide.evaluate(
        "[...document.querySelectorAll('.row:not([hidden]) .time')].every((each) =>"
        " each.scrollWidth <= each.clientWidth && each.clientHeight < 24)"
    )
    narrow = visit(url, viewport={"width": 390, "height": 800})
    narrow.clock.set_fixed_time("2100-01-01")
    narrow.goto(f"{url}/#/conversation/{conversation}")
    expect(narrow.locator(".stamp").first).to_have_text(re.compile(r"^\d\d:\d\d$"))


@pytest.mark.parametrize("scheme", sampled(["light", "dark"], every=2))
def test_no_view_is_wider_than_a_telephone(visit: Visit, url: str, scheme: str) -> None:
    page = visit(url, viewport={"width": 360, "height": 700}, color_scheme=scheme)
    for view in VIEWS:
        page.goto(f"{url}/#/{view}")
        expect(page.locator(".view")).to_be_visible()
        assert page.evaluate("document.documentElement.scrollWidth") == 360, view
    expect(page.locator(".top")).to_have_css("height", "81px")  # two lines, not three
    ground = page.evaluate("getComputedStyle(document.body).backgroundColor")
    lightness = sum(map(int, re.findall(r"\d+", ground))) / 3
    assert lightness > 200 if scheme == "light" else lightness < 60
    page.get_by_role("button", name="Theme").click()
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") != ground
    page.reload()
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") != ground


def test_page_says_that_the_connection_dropped_and_goes_on_without_a_gap(
    visit: Visit, bus: Bus, bus_dir: Path
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with serving(bus_dir, "--port", str(port)) as url:
        page = visit(url)
        wait_for_live(page)
        bus.publish("before", from_agent="lead")
        expect(rows(page)).to_have_count(1)
    expect(page.locator(".link")).to_have_text("no connection")
    for _ in range(5):
        bus.publish("meanwhile", from_agent="lead")
    with serving(bus_dir, "--port", str(port)):
        wait_for_live(page)
        bus.publish("after", from_agent="lead")
        expect(rows(page)).to_have_count(7)
        assert sorted(shown_seqs(page)) == list(range(1, 8))


def test_hundred_thousand_messages_are_as_quick_as_a_few(
    visit: Visit, bus: Bus, bus_dir: Path
) -> None:
    """U-09: the list has as many elements at its end as at its beginning."""
    count = size(sample=30_000, whole=100_000)
    for start in range(0, count, 10_000):
        bus.publish_many(
            Draft("build.step", {"n": start + n}, from_agent=f"a{n % 9}") for n in range(10_000)
        )
    with serving(bus_dir) as url:
        httpx.get(f"{url}/healthz")
        began = time.perf_counter()
        page = visit(url)
        expect(rows(page).first.locator(".seq")).to_have_text(str(count))
        page.keyboard.press("j")
        expect(page.locator(".detail .payload")).to_contain_text(str(count - 1))
        print(f"interactive after {time.perf_counter() - began:.2f} s")
        page.keyboard.press("Escape")
        assert elements(page) < MAX_ELEMENTS
        for _ in range(8):
            scroll_on(page)
        assert elements(page) < MAX_ELEMENTS


def test_burst_leaves_the_list_bounded(visit: Visit, bus: Bus, bus_dir: Path) -> None:
    with serving(bus_dir) as url:
        page = visit(url)
        wait_for_live(page)
        for _ in range(3):
            bus.publish_many([Draft("burst", from_agent="lead")] * 7000)
        newest = page.locator(".list .row[aria-posinset='1']")
        expect(newest.locator(".seq")).to_have_text("21000", timeout=60_000)
        assert newest.get_attribute("aria-setsize") == "20000"
        assert elements(page) < MAX_ELEMENTS


def scroll_on(page: Page) -> None:
    oldest = min(shown_seqs(page))
    page.locator(".list").evaluate("list => list.scrollTo(0, list.scrollHeight)")
    wait_until(lambda: min(shown_seqs(page)) < oldest)


def shown_seqs(page: Page) -> list[int]:
    return [int(text) for text in rows(page).locator(".seq").all_inner_texts()]


def elements(page: Page) -> int:
    return int(page.evaluate("document.querySelectorAll('*').length"))


def test_token_is_asked_for_and_kept_for_the_tab(visit: Visit, bus: Bus, bus_dir: Path) -> None:
    bus.publish("secret", from_agent="lead")
    token = Tokens.of(bus).create("me", [Scope.MESSAGES_RO])
    with serving(bus_dir) as url:
        page = visit(url)
        dialog = page.get_by_role("dialog")
        dialog.get_by_label("Token").fill("bus_0000")
        page.keyboard.press("Enter")
        expect(dialog).to_contain_text("unknown token")
        dialog.get_by_label("Token").fill(token)
        page.keyboard.press("Enter")
        expect(rows(page)).to_have_count(1)
        wait_for_live(page)
        page.reload()
        expect(rows(page)).to_have_count(1)
        assert page.evaluate("localStorage.length") == 0


def test_token_in_the_address_is_taken_out_of_it(visit: Visit, bus: Bus, bus_dir: Path) -> None:
    bus.publish("secret", from_agent="lead")
    token = Tokens.of(bus).create("me", [Scope.MESSAGES_RO])
    with serving(bus_dir) as url:
        page = visit(f"{url}/#token={token}")
        expect(rows(page)).to_have_count(1)
        assert page.url == f"{url}/"
        assert page.evaluate("history.length") <= 2


def test_token_that_one_tab_has_is_told_to_the_others(
    browser: Browser, bus: Bus, bus_dir: Path
) -> None:
    bus.publish("secret", from_agent="lead")
    tokens = Tokens.of(bus)
    token = tokens.create("me", [Scope.MESSAGES_RO])
    with serving(bus_dir) as url, browser.new_context() as context:
        first, second = context.new_page(), context.new_page()
        for page in (first, second):
            page.goto(url)
            expect(page.get_by_role("dialog")).to_be_visible()
        # Where the page is open, a pasted address is no new page: only what is behind its # is new.
        first.evaluate("token => { location.hash = `token=${token}` }", token)
        third = context.new_page()
        third.goto(url)
        for page in (first, second, third):
            expect(rows(page)).to_have_count(1)
            expect(page.get_by_role("dialog")).to_have_count(0)
        assert token not in first.url
        tokens.remove("me")
        for page in (first, second):
            page.reload()
            expect(page.get_by_role("dialog")).to_contain_text("unknown token")


def test_what_may_not_be_read_is_not_said_to_be_empty(
    visit: Visit, bus: Bus, bus_dir: Path
) -> None:
    bus.leases.acquire("release", "lead", lease_s=600)
    token = Tokens.of(bus).create("me", [Scope.MESSAGES_RO])
    with serving(bus_dir) as url:
        page = visit(f"{url}/#token={token}")
        page.goto(f"{url}/#/holds")
        expect(page.locator(".notice")).to_contain_text("work:ro")
        expect(page.get_by_text("Nobody holds a lease.")).to_be_hidden()
        page.get_by_role("button", name="Another token").click()
        page.keyboard.press("Escape")
        page.get_by_role("button", name="Another token").click()
        may_see = Tokens.of(bus).create("you", [Scope.MESSAGES_RO, Scope.WORK_RO])
        page.get_by_role("textbox", name="Token").fill(may_see)
        page.keyboard.press("Enter")
        expect(page.get_by_role("row").filter(has_text="release")).to_be_visible()


def test_commands_that_the_page_advises_do_what_it_says(
    visit: Visit, bus_dir: Path, run_bus: RunBus
) -> None:
    with serving(bus_dir) as url:
        page = visit(f"{url}/#/queues")
        assert run_bus(*advised(page.locator(".empty"))).code == 0
        expect(page.get_by_label("Queue reviews")).to_be_visible()
        assert run_bus("token", "create", "admin", "--scope", "admin").code == 0
        dialog = page.get_by_role("dialog")
        made = run_bus(*advised(dialog))
        dialog.get_by_label("Token").fill(made.out.strip())
        page.keyboard.press("Enter")
        wait_for_live(page)
        page.goto(f"{url}/#/holds")
        expect(page.get_by_text("Nobody holds a lease.")).to_be_visible()


def advised(place: Locator) -> list[str]:
    """The command that stands in a place of the page, without `bus`."""
    program, *arguments = shlex.split(place.locator("code").inner_text())
    assert program == "bus"
    return arguments


def test_each_view_has_a_title_and_names_the_project(visit: Visit, url: str, shared: Bus) -> None:
    name = Path(shared.layout.directory).parent.name
    page = visit(url)
    expect(page.locator(".brand")).to_have_text(name)
    titles = {"timeline": "Timeline", "conversation": "Conversations", "queue/review": "review"}
    for view, title in titles.items():
        page.goto(f"{url}/#/{view}")
        expect(page).to_have_title(re.compile(f"^{title} . {name}$"))
