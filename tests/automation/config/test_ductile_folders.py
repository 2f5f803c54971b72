"""Folders that were written for Ductile, by its own pages, load as they are."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from ackbus.automation.active_config import examine_folder
from ackbus.automation.config.models import Condition

from ..conftest import Folder

#: In the forms of the specification, sections 4 to 10.
SPECIFICATION = {
    "config": """
        include:
          - plugins.yaml
          - routes.yaml
          - pipelines
          - webhooks.yaml
          - tokens.yaml
        service:
          name: gateway
          tick_interval: 60s
          log_level: info
          log_format: json
          dedupe_ttl: 24h
          job_log_retention: 30d
          max_workers: 4
          allow_symlinks: false
        state:
          path: ./data/state.db
        plugin_roots:
          - ./plugins
        api:
          enabled: true
          listen: localhost:8080
          max_concurrent_sync: 10
          max_sync_timeout: 5m
        webhooks:
          listen: 127.0.0.1:8081
    """,
    "plugins": """
        plugins:
          withings:
            enabled: true
            schedules:
              - id: hourly
                every: 1h
                jitter: 10m
                command: poll
                payload: {source: heartbeat}
              - id: weekdays
                cron: "0 9 * * 1-5"
                timezone: Australia/Sydney
              - id: once
                at: "2026-03-15T14:00:00Z"
              - id: soon
                after: 10s
              - id: quiet
                every: 15m
                only_between: "08:00-22:00"
                not_on: [saturday, sunday]
                catch_up: run_once
                if_running: queue
            config:
              client_id: ${WITHINGS_CLIENT_ID}
              client_secret: ${WITHINGS_CLIENT_SECRET}
            retry:
              max_attempts: 5
              backoff_base: 60s
            timeouts:
              poll: 300s
              handle: 300s
            circuit_breaker:
              threshold: 3
              reset_after: 30m
            max_outstanding_polls: 1
            parallelism: 2
          health-analyzer: {enabled: true}
          notify: {enabled: true}
    """,
    "routes": """
        routes:
          - from: withings
            event_type: new_health_data
            to: health-analyzer
          - from: health-analyzer
            event_type: alert
            to: notify
    """,
    "pipelines__summary": """
        pipelines:
          - name: weekly-summary
            on: discord.command.summary
            execution_mode: synchronous
            timeout: 3m
            steps:
              - id: read
                uses: withings.sync
              - id: tell
                uses: notify
    """,
    "webhooks": """
        webhooks:
          endpoints:
            - path: /hook/github
              plugin: notify
              secret_ref: github_webhook_secret
              signature_header: X-Hub-Signature-256
              max_body_size: 1MB
    """,
    "tokens": """
        tokens:
          - name: admin-cli
            key: ${ADMIN_API_KEY}
            scopes_file: scopes/admin-cli.json
            created_at: 2026-02-08T10:00:00Z
          - name: github_webhook_secret
            key: ${GITHUB_WEBHOOK_SECRET}
    """,
}

ENVIRON = {
    "WITHINGS_CLIENT_ID": "id",
    "WITHINGS_CLIENT_SECRET": "s: 1",
    "ADMIN_API_KEY": "a",
    "GITHUB_WEBHOOK_SECRET": "g",
}

MANIFEST = """
    manifest_spec: ductile.plugin
    manifest_version: 1
    name: withings
    version: 1.0.0
    protocol: 2
    entrypoint: run.py
    commands:
      poll: {type: read}
      sync: {type: write}
      handle: {}
    config_keys:
      required: [client_id, client_secret]
      optional: [access_token]
"""


@pytest.mark.requirement(
    "D-37",
    "D-38",
    "D-55",
    "D-56",
    "D-73",
    "D-80",
    "D-98",
    "D-105",
    "D-111",
    "D-118",
    "D-123",
    "D-148",
    "D-151",
)
def test_a_folder_of_the_specification_loads_as_it_is(folder: Folder) -> None:
    folder.write(**SPECIFICATION)
    folder.write_as("scopes/admin-cli.json", '{"scopes": ["*"]}')
    folder.plugin("withings", MANIFEST)
    os.chmod(folder.write_as("plugins/withings/run.py", "#!/usr/bin/env python3\n"), 0o755)
    folder.plugin("health-analyzer")
    folder.plugin("notify")
    folder.lock()
    snapshot = examine_folder(folder.path, ENVIRON)
    assert (snapshot.faults, snapshot.warnings) == ((), ())
    config = snapshot.config
    assert sorted(snapshot.plugins) == ["health-analyzer", "notify", "withings"]
    withings = config.plugins["withings"]
    assert withings.config == {"client_id": "id", "client_secret": "s: 1"}
    ids = [entry.id for entry in withings.schedules]
    assert ids == ["hourly", "weekdays", "once", "soon", "quiet"]
    assert [route.to for route in config.routes] == ["health-analyzer", "notify"]
    assert config.pipelines[0].steps[0].plugin == "withings"
    assert config.pipelines[0].steps[0].command == "sync"
    assert config.pipelines[0].timeout_s == 180
    assert Path(config.state.path).parent == folder.path / "data"


#: In forms of CONFIG_REFERENCE, WEBHOOKS, PIPELINES, YAML_TIPS and others of its pages.
PAGES = {
    "config": """
        log_level: info
        include: [api.yaml, plugins.yaml, pipelines.yaml, webhooks.yaml, tokens.yaml]
        environment_vars:
          include:
            - .env
        service: {strict_mode: false, job_queue_retention: 24h}
        state:
          database:
            path: ./data/ductile.db
        plugin_roots: ["~/nowhere/plugins", ./plugins]
        webhooks: {listen: "127.0.0.1:8091"}
        workspace: {ttl: 168h}
    """,
    "api": """
        api:
          enabled: true
          listen: "localhost:8081"
          auth:
            tokens:
              - token: ${TOKEN}
                scopes: ["plugin:rw", "jobs:rw", "events:ro"]
    """,
    "plugins": """
        x-base: &base
          enabled: true
          timeout: 15s
          max_attempts: 2
        x-config: &config
          default_username: "Ductile"

        plugins:
          discord_notify:
            <<: *base
            notify_on_complete: true
            config:
              <<: *config
              poll_message: "[T2] cron */5min"
          check_youtube:
            uses: if
            enabled: true
            config:
              field: text
              checks:
                - contains: "youtu.be"
                  emit: youtube.url.detected
                - default: text.received
    """,
    "pipelines": """
        pipelines:
          - name: standard
            on: standard.asked
            steps: [{uses: discord_notify}]
          - name: wisdom
            on: discord.video_link_received
            from_plugin: check_youtube
            if: {path: payload.new, op: eq, value: true}
            max_depth: 5
            steps:
              - id: classify
                uses: check_youtube
                baggage: {from: payload.metadata, namespace: whisper}
              - call: standard
              - split:
                  - uses: discord_notify
                    with: {message: "{payload.stdout}", summary: "done: {context.whisper.title}"}
                    baggage:
                      web.url: payload.url
                  - steps:
                      - uses: discord_notify
                        if:
                          all:
                            - {path: payload.kind, op: eq, value: video}
                            - not: {path: payload.duration_sec, op: gte, value: 30}
                      - uses: check_youtube
          - name: notify-on-failure
            on-hook: job.completed
            steps:
              - uses: discord_notify
                if: {path: payload.status, op: neq, value: succeeded}
    """,
    "webhooks": """
        webhooks:
          - name: github
            path: /webhook/github
            plugin: discord_notify
            secret_ref: hook
            signature_header: X-Hub-Signature-256
    """,
    "tokens": "tokens: [{name: hook, key: '${HOOK}'}]\n",
}


@pytest.mark.requirement("D-105", "D-109", "D-123", "D-148", "D-149", "D-150", "D-152", "R-10")
def test_a_folder_of_the_pages_loads_as_it_is(folder: Folder) -> None:
    folder.write(**PAGES)
    folder.write_as(".env", "HOOK=from-file\nexport TOKEN='t'\n")
    folder.plugin("discord_notify")
    folder.plugin("if")
    folder.lock()
    snapshot = examine_folder(folder.path, {})
    assert snapshot.faults == ()
    config = snapshot.config
    assert config.service.log_level == "info"
    assert config.state.path == str(folder.path / "data/ductile.db")
    notify = config.plugins["discord_notify"]
    assert (notify.timeout_s("poll"), notify.retry.max_attempts) == (15, 2)
    assert notify.notify_on_complete
    expected = {"default_username": "Ductile", "poll_message": "[T2] cron */5min"}
    assert notify.config == expected
    assert snapshot.plugins["check_youtube"].folder.name == "if"
    standard, wisdom, hooked = config.pipelines
    assert wisdom.condition == Condition(path="payload.new", op="eq", value=True)
    assert (wisdom.from_plugin, wisdom.max_depth) == ("check_youtube", 5)
    assert (wisdom.steps[0].baggage_from, wisdom.steps[0].namespace) == (
        "payload.metadata",
        "whisper",
    )
    assert wisdom.steps[1].call == standard.name
    assert [step.uses for step in wisdom.steps[2].split] == ["discord_notify", None]
    assert (hooked.on, hooked.on_hook) == (None, "job.completed")
    assert config.webhooks is not None
    assert config.webhooks.listen == "127.0.0.1:8091"
    assert config.webhooks.endpoints[0].secret.reveal() == "from-file"
    told = "\n".join(warning.message for warning in snapshot.warnings)
    assert "this is an old place; write it as service.log_level" in told
    assert "there is no folder" in told
    assert "plugins make the folders that they need" in told


@pytest.mark.requirement("R-21", "D-149")
def test_one_root_and_several_find_the_same_plugin(
    folder: Folder, make_folder: Callable[[str], Folder]
) -> None:
    path = folder.plugin("echo")
    empty = make_folder("empty").path
    found: list[Path] = []
    for roots in ("[plugins]", f"[{empty}, plugins]", f"[plugins, {empty}]"):
        folder.write(config=f"plugin_roots: {roots}\nplugins: {{echo: {{}}}}\n")
        found.append(examine_folder(folder.path, {}).plugins["echo"].entrypoint)
    assert found == [path / "run.sh"] * 3
