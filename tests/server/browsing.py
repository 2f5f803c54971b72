"""A real browser, for the tests of the page and for its pictures."""

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from playwright.sync_api import (
    Browser,
    ConsoleMessage,
    Dialog,
    Locator,
    Page,
    expect,
    sync_playwright,
)

#: Debian's browser without a window, which takes half the time, or with one; None without either.
CHROMIUM = shutil.which("chromium-headless-shell") or shutil.which("chromium")

expect.set_options(timeout=60_000)  # milliseconds: it only bounds what goes wrong

#: Opens an address in a browser context of its own, which takes options.
Visit = Callable[..., Page]


@contextmanager
def chromium() -> Iterator[Browser]:
    """A browser without a window."""
    with sync_playwright() as playwright:
        # Its sandbox needs rights that containers rarely have; it loads nothing but this page.
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield browser
        browser.close()


def troubles_of(page: Page) -> list[str]:
    """The troubles of a page from now on: errors, refusals of the policy, and dialogs."""
    troubles: list[str] = []

    def hear(told: ConsoleMessage) -> None:
        # What the server answered is for the page to say; a test may be about just that.
        if told.type == "error" and not told.text.startswith("Failed to load resource"):
            troubles.append(told.text)

    def dismiss(dialog: Dialog) -> None:
        troubles.append(f"dialog: {dialog.message}")
        dialog.dismiss()

    page.on("pageerror", lambda error: troubles.append(str(error)))
    page.on("console", hear)
    page.on("dialog", dismiss)
    return troubles


def rows(page: Page) -> Locator:
    """The rows of a list that can be seen, or are next to those."""
    return page.locator(".list .row:not([hidden])")


def wait_for_live(page: Page) -> None:
    """Wait until what is published appears at once."""
    expect(page.locator(".link")).to_have_text("live")
