"""The plugin that tells people: real programs on PATH, a real server, a real shell."""

import email
import json
import os
import shlex
import shutil
import subprocess
from email.header import decode_header, make_header
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ...sizes import size
from .asking import ENVIRON, SHIPPED, Plugin
from .web import Site, breaking_off

EVENT = {
    "type": "disk.full",
    "source": "disk",
    "event_id": "e-1",
    "payload": {"title": "Full", "text": "97 %\nof /", "used": 97},
}
#: Nothing of it may be run, or become a header, an option, another field.
HOSTILE = "-x $(touch {0}) `touch {0}`\nBcc: a@b.example\\ \"';& Grüße 😀 \x1b[31m"


class Programs:
    """A folder of programs that keep what they are given, in place of the machine's own.

    Attributes:
        path: the folder, before all others on PATH.
    """

    def __init__(self, folder: Path) -> None:
        self.path = folder
        folder.mkdir()

    def add(self, name: str, code: int = 0, says: str = "") -> None:
        keeping = f"cat >{self.path}/{name}.in\nprintf '%s\\0' \"$@\" >>{self.path}/{name}.args"
        program = self.path / name
        complaint = f"printf '%s' {shlex.quote(says)} >&2"
        program.write_text(f"#!/bin/sh\n{keeping}\n{complaint}\nexit {code}\n")
        program.chmod(0o755)

    def arguments(self, name: str) -> list[str]:
        path = self.path / f"{name}.args"
        return path.read_text().split("\0")[:-1] if path.exists() else []

    def given(self, name: str) -> str:
        return (self.path / f"{name}.in").read_text()


@pytest.fixture
def programs(tmp_path: Path) -> Programs:
    return Programs(tmp_path / "bin")


def notify(programs: Programs, **config: Any) -> Plugin:
    return Plugin("notify", config, PATH=f"{programs.path}:{ENVIRON['PATH']}")


def sent(plugin: Plugin, event: dict[str, Any] = EVENT) -> str:
    asked = plugin.ask("handle", event=event)
    assert asked.response["status"] == "ok", asked.response
    return str(asked.response["result"])


def test_mail_goes_to_the_machines_own_sendmail(programs: Programs) -> None:
    programs.add("sendmail")
    plugin = notify(programs, via="mail", to="me@x.example", **{"from": "bus@x.example"})
    assert sent(plugin) == "sent by mail: Full"
    assert programs.arguments("sendmail") == ["-i", "-f", "bus@x.example", "--", "me@x.example"]
    mail = email.message_from_string(programs.given("sendmail"))
    assert (mail["To"], mail["From"], mail["Subject"]) == ("me@x.example", "bus@x.example", "Full")
    assert mail.get_payload(decode=True) == b"97 %\nof /\n"


def test_nothing_of_an_event_is_a_command_or_a_header(programs: Programs, tmp_path: Path) -> None:
    programs.add("sendmail")
    programs.add("notify-send")
    hostile = HOSTILE.format(tmp_path / "touched")
    event = EVENT | {"payload": {"title": hostile, "text": hostile}}
    sent(notify(programs, via="mail", to="me@x.example"), event)
    mail = email.message_from_string(programs.given("sendmail"))
    assert mail["Bcc"] is None
    subject = str(make_header(decode_header(mail["Subject"])))
    assert subject == hostile.replace("\n", " ").replace("\x1b", " ")
    assert all(len(line) < 79 for line in programs.given("sendmail").splitlines())
    body = mail.get_payload(decode=True)
    assert isinstance(body, bytes)
    assert body.decode() == hostile + "\n"
    sent(notify(programs, via="desktop"), event)
    assert programs.arguments("notify-send") == ["--", hostile, hostile]
    assert not (tmp_path / "touched").exists()


def test_a_webhook_gets_the_event_and_a_key_that_makes_repetition_harmless(
    programs: Programs, site: Site
) -> None:
    site.pages["/hook"] = b"thanks"
    url, token = f"{site.url}/hook", "Bearer hidden"
    plugin = notify(programs, via="webhook", url=url, authorization=token)
    assert sent(plugin) == "sent by webhook: Full"
    (asked,) = site.asked
    assert json.loads(asked.body) == {"title": "Full", "text": "97 %\nof /", "event": EVENT}
    assert (asked.method, asked.headers["Content-Type"]) == ("POST", "application/json")
    assert asked.headers["Authorization"] == "Bearer hidden"
    assert asked.headers["Idempotency-Key"] == "e-1"
    sent(notify(programs, via="webhook", url=url, body="text"))
    assert json.loads(site.asked[1].body) == {"text": "Full\n97 %\nof /"}


def test_secrets_of_a_webhook_are_no_arguments(programs: Programs, site: Site) -> None:
    """Other users see the arguments of a process."""
    curl = shutil.which("curl")
    program = programs.path / "curl"
    program.write_text(f'#!/bin/sh\necho "$@" >{programs.path}/curl.args\nexec {curl} "$@"\n')
    program.chmod(0o755)
    site.pages["/hook?key=hidden"] = b""
    url = f"{site.url}/hook?key=hidden"
    sent(notify(programs, via="webhook", url=url, authorization="Bearer hidden"))
    assert "hidden" not in (programs.path / "curl.args").read_text()
    assert site.asked[0].path == "/hook?key=hidden"


@pytest.mark.requirement("R-02")
def test_r_02_what_was_sent_is_not_sent_again(programs: Programs) -> None:
    programs.add("notify-send")
    plugin = notify(programs, via="desktop")
    assert sent(plugin) == "sent by desktop: Full"
    assert sent(plugin) == "it was sent before"
    assert programs.arguments("notify-send") == ["--", "Full", "97 %\nof /"]
    for number in range(2, 210):
        plugin.state["sent"] = f"e-{number}\n{plugin.state['sent']}"
    sent(plugin, EVENT | {"event_id": "e-300"})
    kept = plugin.state["sent"].split("\n")
    assert (len(kept), kept[0], "e-1" in kept) == (200, "e-300", False)


@pytest.mark.slow
def test_another_event_with_the_same_dedupe_key_is_told_too(programs: Programs) -> None:
    """Its producer uses the key again when it has run out; others may have the same."""
    programs.add("notify-send")
    plugin = notify(programs, via="desktop")
    first = EVENT | {"dedupe_key": "daily"}
    assert sent(plugin, first) == "sent by desktop: Full"
    for event_id, source in (("e-2", "disk"), ("e-3", "memory")):
        event = first | {"event_id": event_id, "source": source}
        assert sent(plugin, event) == "sent by desktop: Full"
        assert sent(plugin, event) == "it was sent before"


def test_a_program_that_fails_sends_later(programs: Programs) -> None:
    programs.add("notify-send", code=1)
    plugin = notify(programs, via="desktop")
    error, retry = plugin.fails("handle", event=EVENT)
    assert (error, retry, plugin.state) == ("notify-send ends with exit code 1", True, {})


@pytest.mark.parametrize(("code", "retry"), [(75, True), (1, True), (67, False), (64, False)])
def test_exit_codes_of_sendmail_say_whether_another_attempt_may_help(
    programs: Programs, code: int, retry: bool
) -> None:
    programs.add("sendmail", code)
    plugin = notify(programs, via="mail", to="me@x.example")
    error, wanted = plugin.fails("handle", event=EVENT)
    assert (f"exit code {code}" in error, wanted) == (True, retry)


@pytest.mark.parametrize(("status", "retry"), [(500, True), (429, True), (400, False)])
def test_answers_of_a_webhook_say_whether_another_attempt_may_help(
    programs: Programs, site: Site, status: int, retry: bool
) -> None:
    site.statuses["/hook"] = status
    plugin = notify(programs, via="webhook", url=f"{site.url}/hook")
    assert plugin.fails("handle", event=EVENT) == (f"the webhook answers {status}", retry)


@pytest.mark.parametrize(
    ("via", "program", "told"),
    [
        ("desktop", "notify-send", 'notify-send ends with exit code 67: no "bus" here'),
        ("mail", "sendmail", 'sendmail refuses it, with exit code 67: no "bus" here'),
    ],
)
def test_a_programs_own_words_are_told_in_a_line(
    via: str, program: str, told: str, programs: Programs
) -> None:
    """Issue 19, item 13."""
    programs.add(program, 67, says='\n no "bus"\n\there\n')
    plugin = notify(programs, via=via, to="me@x.example")
    assert plugin.fails("handle", event=EVENT)[0] == told


@pytest.mark.parametrize(
    ("status", "page", "said"),
    [
        (404, b'{"error": "no_team"}', '{"error": "no_team"}'),
        (502, b"<html>\r\n<h1>Bad\0gateway</h1>" + b"\n" * 200_000, "<html> <h1>Bad gateway</h1>"),
        (500, "Grüße".encode() + b"\xff", "Grüße"),
    ],
)
def test_a_webhooks_own_words_are_told_in_a_line(
    status: int, page: bytes, said: str, programs: Programs, site: Site
) -> None:
    """Issue 19, item 13."""
    site.pages["/hook"], site.statuses["/hook"] = page, status
    plugin = notify(programs, via="webhook", url=f"{site.url}/hook")
    assert plugin.fails("handle", event=EVENT)[0] == f"the webhook answers {status}: {said}"


@pytest.mark.parametrize(("said", "after_s"), [("7", 7), ("86400", 3600), ("Fri, 31 Dec", None)])
def test_a_webhook_is_tried_again_after_the_pause_that_it_asks_for(
    said: str, after_s: int | None, programs: Programs, site: Site
) -> None:
    """Issue 19, item 13."""
    site.statuses["/hook"], site.headers["/hook"] = 429, {"Retry-After": said}
    plugin = notify(programs, via="webhook", url=f"{site.url}/hook")
    response = plugin.ask("handle", event=EVENT).response
    assert (response["retry"], response.get("retry_after_s")) == (True, after_s)


def test_a_webhook_that_breaks_off_is_told_by_curls_own_words(programs: Programs) -> None:
    """Issue 19, item 13; a prompt of 200 KB is no argument of curl."""
    event = EVENT | {"payload": {"text": "words " * 34_000}}
    with breaking_off(b"") as url:
        error, retry = notify(programs, via="webhook", url=url).fails("handle", event=event)
    assert (error.startswith("the webhook can't be reached: curl: ("), retry) == (True, True)


def test_a_webhook_that_is_not_there_is_tried_again_and_one_that_leads_elsewhere_refused(
    programs: Programs, site: Site
) -> None:
    error, retry = notify(programs, via="webhook", url="http://127.0.0.1:1/").fails(
        "handle", event=EVENT
    )
    assert ("can't be reached" in error, retry) == (True, True)
    site.statuses["/hook"] = 302
    plugin = notify(programs, via="webhook", url=f"{site.url}/hook")
    assert "write where it leads to" in plugin.refused("handle", event=EVENT)


@pytest.mark.parametrize(
    ("payload", "title", "text"),
    [
        ({"message": "m"}, "disk.full of disk", "m"),
        ({"result": "r", "url": "http://x"}, "disk.full of disk", "r\nhttp://x"),
        ({"error": "broken", "plugin": "p"}, "disk.full of disk", "broken"),
        ({"used": [1, {"a": None}]}, "disk.full of disk", '{"used":[1,{"a":null}]}'),
        ("words", "disk.full of disk", "words"),
        (None, "disk.full of disk", ""),
        ({"title": 5, "text": 1.5}, "5", "1.5"),
        ({"title": "\\u0041 \u2028", "text": "a\\b"}, "\\u0041 \u2028", "a\\b"),
    ],
)
def test_title_and_text_are_those_of_the_payload_or_what_it_has(
    programs: Programs, payload: object, title: str, text: str
) -> None:
    programs.add("notify-send")
    plugin = notify(programs, via="desktop")
    request = EVENT | {"payload": payload}
    done = subprocess.run(
        [SHIPPED / "notify/run.sh"],
        input=json.dumps(
            {"protocol": 2, "command": "handle", "config": plugin.config, "event": request},
            ensure_ascii=False,
            separators=(",", ":"),
        ).encode(),
        cwd=SHIPPED / "notify",
        env=plugin.environ,
        check=True,
        capture_output=True,
    )
    assert json.loads(done.stdout)["status"] == "ok"
    assert programs.arguments("notify-send") == ["--", title, text]


@pytest.mark.slow
def test_what_is_too_long_for_a_desktop_is_cut_at_a_character(programs: Programs) -> None:
    """An argument of 200 KB would never reach it; a header of mail is cut, too."""
    programs.add("notify-send")
    event = EVENT | {"payload": {"title": "x" + "ä" * 100_000, "text": "\n" + "ü" * 100_000}}
    assert len(sent(notify(programs, via="desktop"), event)) < 600
    title, text = programs.arguments("notify-send")[1:]
    assert (title, text) == ("x" + "ä" * 249, "\n" + "ü" * 1_999)
    programs.add("sendmail")
    sent(notify(programs, via="mail", to="a@b.example"), event)
    mail = email.message_from_string(programs.given("sendmail"))
    assert str(make_header(decode_header(mail["Subject"]))) == "x" + "ä" * 199


def test_escapes_of_json_are_what_they_stand_for(programs: Programs) -> None:
    """Other producers write escapes where the service writes UTF-8."""
    programs.add("notify-send")
    plugin = notify(programs, via="desktop", title="t")
    text = 'ä € 😀 \t \\ / " \b'
    request = {"protocol": 2, "command": "handle", "config": plugin.config}
    body = json.dumps(request | {"event": {"payload": {"text": text}}}, indent=1)
    subprocess.run(
        [SHIPPED / "notify/run.sh"],
        input=body.encode(),
        cwd=SHIPPED / "notify",
        env=plugin.environ,
        check=True,
        capture_output=True,
    )
    assert programs.arguments("notify-send") == ["--", "t", text]


#: Values as events have them: text with all that JSON escapes, in parts of any depth.
TEXT = st.text(st.characters(exclude_categories=("Cs",), exclude_characters="\0"), max_size=30)
VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=8,
)


def read(document: str, *options: str) -> str:
    """The answer of the plugin's reader of JSON, without the line break that ends it.

    It has 10 seconds of the processor.
    """
    limited = ("sh", "-c", 'ulimit -t 10; exec "$@"', "sh")
    done = subprocess.run(
        [*limited, "awk", "-f", SHIPPED / "notify/json.awk", *options],
        input=document.encode(),
        env=ENVIRON | {"LC_ALL": "C"},
        capture_output=True,
        check=True,
    )
    return done.stdout.decode().removesuffix("\n")


@pytest.mark.slow
@settings(max_examples=size(sample=40, whole=500), deadline=None)
@given(beside=VALUES, value=VALUES, text=TEXT, is_ascii=st.booleans())
def test_json_is_read_and_written_as_it_is(
    beside: object, value: object, text: str, is_ascii: bool
) -> None:
    event = {"a": beside, "event": {"text": text, "value": value, "b": beside}}
    document = json.dumps(event, ensure_ascii=is_ascii)
    assert read(document, "want=event.text") == text
    assert json.loads(read(document, "mode=raw", "want=event")) == event["event"]
    assert json.loads(read(text, "mode=quote")) == text.removesuffix("\n")


@pytest.mark.slow
def test_long_texts_take_a_time_that_grows_as_they_do() -> None:
    """A megabyte takes half a second of the processor; the square of its length took minutes."""
    text = 'a "line"\n' * 110_000
    assert json.loads(read(text, "mode=quote")) == text.removesuffix("\n")
    assert read(json.dumps({"a": text}), "want=a") == text


@pytest.mark.parametrize(
    "document", ["", "{", '{"a"}', '{"a": }', "[1 2]", "nul", '"a', '{"a": 1}}']
)
def test_what_is_no_json_is_refused(document: str) -> None:
    with pytest.raises(subprocess.CalledProcessError):
        read(document, "want=a")


@pytest.mark.parametrize(
    ("config", "told"),
    [
        ({}, "via: write desktop, mail or webhook"),
        ({"via": "pigeon"}, "via: write desktop, mail or webhook, not pigeon"),
        ({"via": ["mail"]}, "via: write a text"),
        ({"via": "mail"}, "to: write the address"),
        ({"via": "mail", "to": "-oQ/tmp"}, "to: write one address"),
        ({"via": "mail", "to": "a@b.example, c@d.example"}, "to: write one address"),
        ({"via": "mail", "to": "a@b.example", "from": "x y"}, "from: write one address"),
        ({"via": "webhook"}, "url: write http"),
        ({"via": "webhook", "url": "file:///etc/passwd"}, "url: write http"),
        ({"via": "webhook", "url": 'http://x/"\noutput = /tmp/x'}, "url: write what is no plain"),
        ({"via": "webhook", "url": "http://x", "body": "xml"}, "body: write event or text"),
        ({"via": "webhook", "url": "http://x", "timeout_s": 0}, "timeout_s: write a number"),
        ({"via": "webhook", "url": "http://x", "authorization": 'a"'}, "authorization: it has"),
    ],
)
def test_a_wrong_setting_ends_the_attempts_and_says_what_to_write(
    programs: Programs, config: dict[str, Any], told: str
) -> None:
    for name in ("sendmail", "notify-send"):
        programs.add(name)
    for command in ("init", "handle", "health"):
        assert told in notify(programs, **config).refused(command, event=EVENT)


def test_a_program_that_is_not_there_is_named(tmp_path: Path) -> None:
    tools = tmp_path / "tools"
    tools.mkdir()
    for name in ("sh", "awk", "cat", "tr"):
        found = shutil.which(name)
        assert found
        os.symlink(found, tools / name)
    for via, program, more in (
        ("desktop", "notify-send", {}),
        ("webhook", "curl", {"url": "http://x.example"}),
    ):
        plugin = Plugin("notify", {"via": via} | more, PATH=str(tools))
        assert plugin.refused("health") == (
            f"via: {via} needs the program {program}, which is not here"
        )
