"""The commands as help lists them: by group, each with its module and its summary.

Help reads only this, and so loads no command. A test compares the summaries with the commands.
"""

from __future__ import annotations

#: The groups of help: for each command its module in `cli/commands/` and the first sentence of its
#: own help.
GROUPS: dict[str, dict[str, tuple[str, str]]] = {
    "Messages": {
        "publish": ("publish", "Publish a message and print its id."),
        "request": ("publish", "Publish a request, wait for its first answer, and print that."),
        "check": ("publish", "Print whether a request has been answered, and how."),
        "notify": ("publish", "Notify a person of answers, once for each conversation."),
        "poll": ("inbox", "Print the unread messages of an agent."),
        "ack": ("inbox", "Acknowledge a message and all before it."),
        "inbox": ("inbox", "Print the state of an inbox, and choose its broadcasts."),
        "listen": ("inbox", "Run a command for each message."),
        "wake": ("agents", "Wake an idle agent that has unread mail."),
        "parked": ("inbox", "Messages set aside after too many failed deliveries."),
        "read": ("read", "Print the messages that match every option, in order."),
        "tail": ("read", "Print the newest messages, the oldest of them first."),
        "search": ("read", "Print the messages with all these words, the best first."),
        "replay": ("read", "Print a range of the log."),
        "show": ("read", "Print one message in full."),
        "receipts": ("read", "Print who has acknowledged a message."),
        "inspect": ("read", "Print a message with its jobs and claims in every queue."),
        "trace": ("read", "Print all that led to a message or came of it, as a tree."),
        "graph": ("graph", "Draw a conversation, or the agents that talk to each other."),
        "timeline": ("graph", "Draw the messages between agents along a time line, as SVG."),
    },
    "Work": {
        "run": ("job", "Work on the messages of a type: run a command for each."),
        "queue": ("queue", "Queues: work that competing workers share, by type."),
        "job": ("job", "Jobs: the messages in a queue, and their attempts."),
        "dead": ("job", "Dead letters: jobs that used up their attempts."),
        "limit": ("queue", "Limits of waiting messages, which refuse further ones."),
        "lease": ("reserve", "Named exclusive rights that expire."),
        "agents": ("agents", "Agents that the bus knows: list them, forget one."),
        "heartbeat": ("agents", "Record a heartbeat of an agent."),
        "top": ("agents", "Show agents, queues and the newest messages, live."),
    },
    "Tasks": {
        "task": ("task", "Tasks: work of one agent on one git branch."),
        "integrate": (
            "crew",
            "Land what is approved, once its checks pass.",
        ),
        "crew": ("crew", "Crew: planner, workers and integrator, kept running."),
    },
    "Automation": {
        "automation": (
            "automation",
            "The service that runs schedules, plugins, routes and webhooks.",
        ),
        "plugin": ("plugin", "Plugins: programs that the service of automation runs."),
        "route": ("pipeline", "Routes: which events of plugins make which jobs."),
        "pipeline": ("pipeline", "Pipelines: steps that follow events; and their runs."),
        "config": ("automation", "Configuration of the automation: check it, show it, seal it."),
        "schedule": ("schedule", "Schedules: when commands of plugins are due."),
        "webhook": ("webhook", "Webhooks: signed requests of others that begin jobs."),
    },
    "Files": {
        "reserve": ("reserve", "Reserve files for editing: all of PATHS, or none."),
        "reservations": ("reserve", "Reservations: the files that agents edit."),
        "guard": ("reserve", "Git hooks that protect the files reserved by others."),
        "blob": ("blob", "Large payloads, stored under their hashes."),
        "export": ("export", "Bring bus.jsonl up to date with the log."),
        "import": ("export", "Publish the lines of a file that the log lacks."),
        "log": ("export", "Print the messages that git commits added to bus.jsonl."),
    },
    "Care": {
        "init": ("init", "Make a bus, unless it exists."),
        "where": ("init", "Print the directory of the bus that commands use here."),
        "stats": ("init", "Print counts and sizes of the bus."),
        "doctor": ("doctor", "Examine the bus, and print a line for each check."),
        "archive": ("doctor", "Move old messages out of the bus, into compressed files."),
        "segments": ("doctor", "List the files of the archive, and the state of each."),
        "maintain": ("doctor", "Shrink the files of the bus, in short steps."),
        "backup": ("doctor", "Copy the whole bus while it is in use, and check the copy."),
        "restore": ("init", "Turn a backup, where it is, into a bus that can be written."),
        "upgrade": ("init", "Upgrade a bus of an older ackbus to this version."),
        "key": ("key", "Keys of agents: an agent with a key signs all its messages."),
        "verify": ("key", "Check the log against its signatures and its chain."),
        "chain": ("key", "A hash chain over the log, which shows any later change."),
        "trust": ("init", "Trusted directories, whose files may act where they are found."),
        "torture": ("demo", "Test the disk: kill agents at random, and look for losses."),
        "demo": ("demo", "Show the bus at work on your own files."),
    },
    "Doors": {
        "setup": ("setup", "Set up other programs for the bus."),
        "prime": ("setup", "Print a short guide to the bus for an agent."),
        "hook": ("setup", "Answer an event of an agent's program, as set up."),
        "mcp": ("serve", "Serve a coding agent that speaks MCP, over stdin and stdout."),
        "forward": ("webhook", "Post messages to a URL, each until it is taken, in order."),
        "serve": ("serve", "Serve the bus over HTTP, until Ctrl-C or SIGTERM."),
        "token": ("serve", "Access tokens for the server of the bus."),
        "ui": ("serve", "Open the page of the bus in the browser."),
        "prompt": ("completion", "Print the number of unread messages, for a shell's prompt."),
        "completion": ("completion", "Completion for shells, and manual pages."),
    },
}

#: The module of each command, in the order in which help lists them.
MODULES = {name: module for group in GROUPS.values() for name, (module, _) in group.items()}
