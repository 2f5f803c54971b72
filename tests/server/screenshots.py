"""Makes the pictures of the page in docs/pictures: `python -m tests.server.screenshots --write`.

Without `--write` they go to a new folder, to be looked at. Pillow comes with the extra `bench`.
"""

import argparse
import math
import tempfile
import time
import warnings
from pathlib import Path

from playwright.sync_api import Browser, Page, ViewportSize, expect

from ackbus import Bus, Queue
from ackbus.schema.errors import UnknownRecipientWarning

from . import scene
from .browsing import chromium
from .conftest import serving

PICTURES = Path(__file__).parents[2] / "docs" / "pictures"
WIDE: ViewportSize = {"width": 1200, "height": 700}
#: As high as the conversation is long: the README begins with it.
OPENING: ViewportSize = {"width": 1200, "height": 540}
NARROW: ViewportSize = {"width": 360, "height": 700}
#: For how long work goes on under the eyes of the page, so that its plots have a shape.
WORK_S = 24
#: As many as nobody misses any, in a third of the bytes.
COLOURS = 256


def main() -> None:
    """Serve a project at work, and take the pictures."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--write", action="store_true", help="into docs/pictures")
    folder = PICTURES if parser.parse_args().write else Path(tempfile.mkdtemp())
    warnings.simplefilter("ignore", UnknownRecipientWarning)
    with tempfile.TemporaryDirectory() as place, Bus.init(f"{place}/shop/.worker-state") as bus:
        conversation = scene.fill(bus)
        with serving(Path(place, "shop/.worker-state")) as url, chromium() as browser:
            take_all(browser, bus, url, conversation, folder)
    print(folder)


def take_all(browser: Browser, bus: Bus, url: str, conversation: str, folder: Path) -> None:
    take(conversation_page(browser, url, conversation), folder / "page-conversation.png")
    page = opened(browser, url, WIDE, "light")
    page.locator(".row").filter(has_text="code.done").first.click()
    take(page, folder / "page-timeline.png")
    page = opened(browser, url, NARROW, "dark")
    take(page, folder / "page-narrow.png")
    page = opened(browser, f"{url}/#/queue/review", WIDE, "light")
    work(bus, page)
    page.get_by_role("combobox").select_option("dead")
    page.locator("tbody button").first.click()
    page.locator(".attempt").first.wait_for()
    take(page, folder / "page-queue.png")


def conversation_page(browser: Browser, url: str, conversation: str) -> Page:
    """The conversation as a whole, with its failure in full beside it."""
    page = opened(browser, f"{url}/#/conversation/{conversation}", OPENING, "dark")
    page.locator(".sequence .step").nth(5).click()
    expect(page.locator(".sequence .head").last).to_be_in_viewport()  # drawn anew, beside the panel
    return page


def take(page: Page, path: Path) -> None:
    from PIL import Image  # only to make pictures smaller: tests take them as they are

    page.screenshot(path=path)
    with Image.open(path) as picture:
        few = picture.convert("RGB").quantize(COLOURS, Image.Quantize.MAXCOVERAGE)
    few.save(path, optimize=True)


def opened(browser: Browser, address: str, viewport: ViewportSize, scheme: str) -> Page:
    page = browser.new_context(viewport=viewport, reduced_motion="reduce").new_page()
    page.emulate_media(color_scheme="dark" if scheme == "dark" else "light")
    page.goto(address)
    page.locator(".link[data-state=live]").wait_for()
    page.locator(".view tr, .view .row, .view .step").first.wait_for()
    return page


def work(bus: Bus, page: Page) -> None:
    """Publish reviews in waves, and do them."""
    queue = Queue.open(bus, "review")
    end = time.monotonic() + WORK_S
    while (left := end - time.monotonic()) > 0:
        for _ in range(round(2 + 2 * math.sin(left))):
            bus.publish("review.request", {"commit": "9b07d13"}, from_agent="coder")
        for claim in queue.claim("reviewer-1", limit=2):
            queue.complete(claim, result={"remarks": 0})
        page.wait_for_timeout(400)


if __name__ == "__main__":
    main()
