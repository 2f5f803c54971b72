"""The values of variables stand in no fault, in nothing shown, and in no line of the log."""

import io
import json
import logging

import pytest

from ackbus.automation.active_config import examine_folder
from ackbus.automation.config.redaction import shown
from ackbus.automation.config.values import ConfigFaults
from ackbus.automation.log import ServiceLog

from ..conftest import Folder

#: Places of settings of each type, with `{}` for the value.
PLACES = [
    "service: {{max_workers: {}}}",
    "service: {{tick_interval: {}}}",
    "service: {{log_level: {}}}",
    "service: {{strict_mode: {}}}",
    "service: {{on_failure: {}}}",
    "state: {{path: {}}}",
    "plugin_roots: [{}]",
    "plugins: {{echo: {{uses: {}}}}}",
    "plugins: {{echo: {{timeout: {}}}}}",
    "plugins: {{echo: {{parallelism: {}}}}}",
    "plugins: {{echo: {{timeouts: {{poll: {}}}}}}}",
    "plugins: {{echo: {{limits: {{memory: {}}}}}}}",
    "plugins: {{echo: {{retry: {{backoff_base: {}}}}}}}",
    "plugins: {{echo: {{config: {{a: [{}]}}}}}}",
    "plugins: {{echo: {{schedules: [{{every: {}}}]}}}}",
    "plugins: {{echo: {{schedules: [{{cron: {}}}]}}}}",
    "plugins: {{echo: {{schedules: [{{at: {}}}]}}}}",
    "plugins: {{echo: {{schedules: [{{every: 5m, timezone: {}}}]}}}}",
    "plugins: {{echo: {{schedules: [{{every: 5m, not_on: [{}]}}]}}}}",
    "plugins: {{echo: {{schedules: [{{every: 5m, only_between: {}}}]}}}}",
    "routes: [{{from: echo, event_type: e, to: {}}}]",
    "pipelines: [{{name: {}, on: e, steps: [{{uses: echo}}]}}]",
    "pipelines: [{{name: p, on: e, steps: [{{uses: {}}}]}}]",
    "pipelines: [{{name: p, on: e, steps: [{{call: {}}}]}}]",
    "pipelines: [{{name: p, on: e, if: {{path: {}, op: eq, value: 1}}, steps: [{{uses: echo}}]}}]",
    "api: {{listen: {}}}",
    "api: {{enabled: {}}}",
    "tokens: [{{name: {}, key: '${{X}}'}}]",
    "webhooks: {{listen: {}, endpoints: []}}",
    "webhooks: {{endpoints: [{{path: {}, secret_ref: it, signature_header: x}}]}}",
    "webhooks: {{endpoints: [{{path: /p, plugin: echo, secret_ref: {}, signature_header: x}}]}}",
    "webhooks: {{endpoints: [{{path: /p, plugin: echo, secret_ref: it, signature_header: x,"
    " rate_limit: {}}}]}}",
    "environment_vars: {{other: {}}}",
]
#: Values that no type takes, or that some take.
VALUES = ["Hunter2-Xyzzy", "http://u:Hunter2@h/", "a b\nHunter2: [", "'Hunter2'", "x.Hunter2.y"]
TAKEN = {"90210": ("90210",), "9021m": ("9021m", "541260"), "true": ()}


def with_echo(text: str) -> str:
    """Returns a configuration in which the plugin that it names is there."""
    return text + ("\n" if text.startswith("plugins:") else "\nplugins: {echo: {}}\n")


@pytest.mark.slow
@pytest.mark.parametrize("place", PLACES)
def test_no_fault_repeats_a_value_or_a_part_of_it(folder: Folder, place: str) -> None:
    folder.plugin("echo")
    for form in ('"${X}"', "${X}", '"a${X}b"'):
        root = "" if place.startswith("plugin_roots") else "plugin_roots: [plugins]\n"
        folder.write_as("config.yaml", root + with_echo(place.format(form)))
        for value in VALUES:
            try:
                found = examine_folder(folder.path, {"X": value})
            except ConfigFaults as error:
                told = [str(error), *map(str, (*error.faults, *error.warnings))]
            else:
                told = [*map(str, (*found.faults, *found.warnings))]
                told.append(json.dumps(shown(found.config)))
            for line in told:
                assert "hunter2" not in line.casefold(), (form, value)


@pytest.mark.parametrize("place", PLACES)
def test_a_value_that_is_taken_is_shown_as_it_stands_in_the_file(
    folder: Folder, place: str
) -> None:
    folder.plugin("echo")
    root = "" if place.startswith("plugin_roots") else "plugin_roots: [plugins]\n"
    folder.write_as("config.yaml", root + with_echo(place.format("${X}")))
    for value, forms in TAKEN.items():
        try:
            found = examine_folder(folder.path, {"X": value})
        except ConfigFaults:
            continue
        text = json.dumps(shown(found.config))
        assert not [form for form in forms if form in text], value
        if place != "environment_vars: {{other: {}}}":
            assert "${X}" in text or "REDACTED" in text


def test_the_log_repeats_no_value(folder: Folder) -> None:
    folder.plugin("echo")
    text = "plugin_roots: [plugins]\nplugins: {echo: {config: {a: '${X}'}}}\n"
    folder.write_as("config.yaml", text)
    config = examine_folder(folder.path, {"X": "Hunter2\n'x'"}).config
    told = io.StringIO()
    with ServiceLog(told) as log:
        log.use_config(config.service, config.variables)
        logger = logging.getLogger("ackbus.automation.x")
        logger.warning("it was %s, or %r", "Hunter2\n'x'", "Hunter2\n'x'")
        try:
            raise ValueError("Hunter2\n'x'")
        except ValueError:
            logger.exception("broken")
    assert "Hunter2" not in told.getvalue()
    assert "${X}" in told.getvalue()
