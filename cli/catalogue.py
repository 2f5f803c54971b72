"""The commands as help lists them: by group, each with its module and its summary.

Help and the errors of mistyped words read only this, and so load no command. Tests compare the
summaries, and all command lines that are named here, with the commands.
"""

from __future__ import annotations

#: The commands of the first page of help, in the order in which a newcomer needs them.
FIRST = ("demo", "init", "publish", "poll", "ack", "run", "setup", "doctor")

#: The groups of help: for each command its module in `cli/commands/` and the first sentence of its
#: own help.
GROUPS: dict[str, dict[str, tuple[str, str]]] = {
    "Messaging": {
        "publish": ("publish", "Publish a message and print its id."),
        "poll": ("inbox", "Print the unread messages of an agent."),
        "ack": ("inbox", "Acknowledge a message and all before it."),
        "listen": ("inbox", "Run a command for each message."),
        "inbox": ("inbox", "Print the state of an inbox, and choose its broadcasts."),
        "parked": ("inbox", "Messages set aside after too many failed deliveries."),
        "request": ("publish", "Publish a request, wait for its first answer, and print that."),
        "check": ("publish", "Print whether a request has been answered, and how."),
        "notify": ("publish", "Notify a person of answers, once for each conversation."),
        "wake": ("agents", "Wake an idle agent that has unread mail."),
    },
    "Log and tracing": {
        "tail": ("read", "Print the newest messages, the oldest of them first."),
        "read": ("read", "Print the messages that match every option, in order."),
        "search": ("read", "Print the messages with all these words, the best first."),
        "replay": ("read", "Print a range of the log."),
        "show": ("read", "Print one message in full."),
        "inspect": ("read", "Print a message with its jobs and claims in every queue."),
        "trace": ("read", "Print all that led to a message or came of it, as a tree."),
        "receipts": ("read", "Print who has acknowledged a message."),
        "graph": ("graph", "Draw a conversation, or the agents that talk to each other."),
        "timeline": ("graph", "Draw the messages between agents along a time line, as SVG."),
    },
    "Queues and jobs": {
        "run": ("job", "Work on the messages of a type: run a command for each."),
        "queue": ("queue", "Queues: work that competing workers share, by type."),
        "job": ("job", "Jobs: the messages in a queue, and their attempts."),
        "dead": ("job", "Dead letters: jobs that used up their attempts."),
        "limit": ("queue", "Limits of waiting messages, which refuse further ones."),
    },
    "Agents, leases and files": {
        "agents": ("agents", "Agents that the bus knows: list them, forget one."),
        "heartbeat": ("agents", "Record a heartbeat of an agent."),
        "lease": ("reserve", "Named exclusive rights that expire."),
        "reserve": ("reserve", "Reserve files for editing: all of PATHS, or none."),
        "reservations": ("reserve", "Reservations: the files that agents edit."),
        "guard": ("reserve", "Git hooks that protect the files reserved by others."),
        "blob": ("blob", "Large payloads, stored under their hashes."),
    },
    "Tasks on git branches (optional)": {
        "task": ("task", "Tasks: work of one agent on one git branch."),
        "integrate": ("crew", "Land what is approved, once its checks pass."),
        "crew": ("crew", "Crew: planner, workers and integrator, kept running."),
    },
    "Automation (optional)": {
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
    "Servers (optional)": {
        "ui": ("serve", "Open the page of the bus in the browser."),
        "serve": ("serve", "Serve the bus over HTTP, until Ctrl-C or SIGTERM."),
        "token": ("serve", "Access tokens for the server of the bus."),
        "mcp": ("serve", "Serve a coding agent that speaks MCP, over stdin and stdout."),
    },
    "Coding agents, shells and other programs": {
        "setup": ("setup", "Set up other programs for the bus."),
        "prime": ("setup", "Print a short guide to the bus for an agent."),
        "hook": ("setup", "Answer an event of an agent's program, as set up."),
        "forward": ("webhook", "Post messages to a URL, each until it is taken, in order."),
        "prompt": ("completion", "Print the number of unread messages, for a shell's prompt."),
        "completion": ("completion", "Completion for shells, and manual pages."),
    },
    "Maintenance": {
        "init": ("init", "Make a bus, unless it exists."),
        "where": ("init", "Print the directory of the bus that commands use here."),
        "stats": ("init", "Print counts and sizes of the bus."),
        "top": ("agents", "Show agents, queues and the newest messages, live."),
        "doctor": ("doctor", "Examine the bus, and print a line for each check."),
        "backup": ("doctor", "Copy the whole bus while it is in use, and check the copy."),
        "restore": ("init", "Turn a backup, where it is, into a bus that can be written."),
        "archive": ("doctor", "Move old messages out of the bus, into compressed files."),
        "segments": ("doctor", "List the files of the archive, and the state of each."),
        "maintain": ("doctor", "Shrink the files of the bus, in short steps."),
        "upgrade": ("init", "Upgrade a bus of an older ackbus to this version."),
        "export": ("export", "Bring bus.jsonl up to date with the log."),
        "import": ("export", "Publish the lines of a file that the log lacks."),
        "log": ("export", "Print the messages that git commits added to bus.jsonl."),
        "torture": ("demo", "Test the disk: kill agents at random, and look for losses."),
        "demo": ("demo", "Show the bus at work on your own files."),
    },
    "Signatures and trust": {
        "key": ("key", "Keys of agents: an agent with a key signs all its messages."),
        "verify": ("key", "Check the log against its signatures and its chain."),
        "chain": ("key", "A hash chain over the log, which shows any later change."),
        "trust": ("init", "Trusted directories, whose files may act where they are found."),
    },
}

#: The module of each command, in the order in which help lists them.
MODULES = {name: module for group in GROUPS.values() for name, (module, _) in group.items()}

#: The sections of the help of a group that has many commands.
SECTIONS = {
    "task": {
        "To make tasks": ("spawn", "add", "request", "plan"),
        "To work on them": ("work", "start", "heartbeat", "comment", "block", "done", "fail"),
        "To decide": ("approve", "reject", "answer", "merge", "cancel", "confirm"),
        "To look": (
            *("board", "list", "show", "log", "diff", "comments", "forecast", "proof", "attach"),
        ),
        "To tidy": ("clean", "settle"),
    }
}

#: The extra that commands need, by command.
EXTRAS = {
    **dict.fromkeys(GROUPS["Automation (optional)"], "automation"),
    "crew": "automation",
    **dict.fromkeys(("ui", "serve", "token"), "server"),
    "mcp": "mcp",
}

#: Sets of commands that are taken for one another. The help of each shows its set.
CHOICES: tuple[dict[str, str], ...] = (
    {
        "tail": "The newest messages; with -f also each that comes.",
        "read": "All messages that match filters, from the oldest.",
        "search": "Messages with some words in them, the best first.",
        "replay": "A range by seq or time; with --json the lines of bus.jsonl.",
        "log": "What the commits of git added to bus.jsonl; it needs no bus.",
    },
    {
        "show": "One message in full.",
        "inspect": "The same, and its jobs with every attempt at them.",
        "trace": "All that led to it and came of it, as a tree, with the jobs.",
        "receipts": "Only who has acknowledged it.",
    },
    {
        "parked": "Mail of one agent that its listener failed at too often.",
        "dead": "Jobs of a queue that used up their attempts.",
        "job retry": "Any ended job, also one whose failure was its answer.",
    },
    {
        "run": "Shared work: each message goes to one worker of the queue.",
        "listen": "Mail: every agent gets its own copy of each message.",
        "task work": "Tasks: an agent program for each, on a git branch of its own.",
    },
    {
        "request": "Ask, wait, and print the answer.",
        "check": "Look once whether an earlier request is answered.",
        "notify": "Watch all requests, and tell a person of each answer.",
    },
)

#: Words of other systems that run the one command here that they mean. No command that destroys
#: anything is among these.
SYNONYMS = {
    **dict.fromkeys(("pub", "emit", "produce", "xadd"), "publish"),
    "version": "--version",
}

#: The same within a group of commands, if the group has that command.
SYNONYMS_IN_GROUPS = {"ls": "list"}

_TO_PULL = ("poll AGENT --wait 30", "run --type TYPE -- CMD")
_TO_SUBSCRIBE = ("listen AGENT -- CMD", *_TO_PULL)
_TO_START = ("run --type TYPE -- CMD", "serve", "automation start", "crew start")

#: Further words of other systems (brokers, task queues, git, containers), each after the command
#: lines that the error suggests for it.
POINTERS = {
    # to send
    ("publish TYPE BODY --to AGENT", "publish TYPE BODY"): "send enqueue",
    ("publish TYPE BODY",): "lpush rpush add put post message broadcast tell write dispatch",
    ("publish TYPE BODY", "integrate"): "push",
    ("publish TYPE BODY --reply-to SEQ", "task answer"): "reply answer respond",
    ("publish TYPE BODY --delay 10m",): "delay later defer",
    ("request TYPE BODY",): "ask call rpc req invoke",
    # to receive
    _TO_SUBSCRIBE: "subscribe sub psubscribe consume consumer on handle",
    _TO_PULL: "receive recv fetch pull dequeue pop lpop rpop blpop brpop next take claim xread"
    " xreadgroup",
    ("inbox AGENT --want TYPE",): "unsubscribe unregister leave",
    ("poll AGENT", "read", "tail -f"): "messages mail msg unread history xrange cat",
    ("ack AGENT SEQ",): "acknowledge xack commit confirm",
    ("inbox AGENT",): "seek offset offsets cursor cursors",
    ("tail -f", "top"): "watch follow monitor logs events live",
    ("tail -f", "replay"): "stream",
    ("search WORDS", "read"): "find grep query select scan",
    ("check CONVERSATION",): "result response",
    # to work
    ("run --type TYPE -- CMD", "task work -- CMD"): "worker work process exec celery",
    ("dead list", "parked list"): "nack reject dlq deadletter dead-letter failed",
    ("job retry SEQ", "dead requeue SEQ"): "retry requeue redeliver",
    ("queue list", "stats"): "declare topic topics subject subjects channel channels",
    ("queue list", "queue create NAME"): "group groups bind exchange",
    ("schedule --help",): "cron beat timer",
    ("lease acquire NAME", "reserve PATHS"): "lock",
    ("lease release NAME", "reservations release TOKEN"): "unlock",
    # to look
    ("agents list", "queue list", "task list", "read"): "ls list get ps keys all",
    ("stats", "top", "doctor"): "status info health ping healthcheck metrics state report",
    ("show SEQ", "inspect SEQ"): "describe view",
    ("agents list",): "who nodes peers workers members",
    ("where",): "whoami pwd path dir context env",
    ("stats",): "count dbsize size du usage",
    ("ui",): "dashboard web gui browser flower open",
    # to run and to keep
    _TO_START: "start up stop down restart shutdown kill",
    ("serve",): "server daemon http api",
    ("init", "queue create NAME", "task spawn TASK"): "new create make",
    ("help all",): "delete del rm remove drop destroy man docs commands",
    ("archive", "maintain"): "flushall flush truncate reset purge clean gc prune vacuum compact",
    ("backup DIR", "export"): "save bgsave dump snapshot",
    ("import FILE", "restore"): "load",
    ("upgrade",): "migrate update",
    ("doctor --repair --dry-run",): "repair fix fsck recover",
    ("setup --help",): "install hooks integrations",
    ("torture", "demo"): "bench benchmark test stress",
    ("demo", "help"): "example tutorial try quickstart guide",
    ("init --help", "queue set NAME"): "settings set configure",
    ("key --help", "token --help"): "sign login auth user account",
    # of git
    ("task --help", "setup git"): "branch checkout worktree clone switch",
    ("integrate", "task merge TASK"): "merge land rebase",
    ("task diff TASK", "log"): "diff blame",
}

#: The same within a group of commands: of those that are named, the error suggests what it has.
POINTERS_IN_GROUPS = {
    ("list",): "ps all index",
    ("show",): "info describe inspect view cat read",
    ("list", "show"): "get",
    ("status", "show", "list"): "status state",
    ("create", "add", "acquire", "spawn", "install", "put"): "new create add make declare put"
    " spawn register init assign",
    ("remove", "drop", "forget", "release", "clear"): "delete del rm remove drop destroy uninstall"
    " unregister revoke",
    ("set", "renew"): "edit update configure config change",
    ("requeue", "retry"): "retry requeue redeliver replay restart",
    ("start", "resume", "on"): "start continue unpause enable on",
    ("stop", "pause", "off"): "stop halt disable off suspend",
    ("cancel", "stop"): "kill abort terminate",
    ("purge", "clear", "clean"): "clear flush empty prune gc",
    ("acquire", "start"): "lock take claim",
    ("release",): "unlock free",
    ("renew", "heartbeat"): "extend touch refresh",
    ("done",): "finish complete submit close",
    ("approve",): "accept lgtm",
    ("run", "test"): "execute trigger fire",
    ("check", "verify"): "validate lint verify",
    ("request", "block"): "ask",
    ("log", "logs", "history"): "log logs history tail",
}

#: Options of other systems, each after those that mean the same here, of which a command has some.
OTHER_OPTIONS = {
    ("--type",): "--topic --subject --channel --event",
    ("--from", "--agent", "--by"): "--sender --as --me --source",
    ("--to",): "--recipient --receiver --dest --target",
    ("--agent", "--group"): "--name --consumer --worker --client",
    ("--limit",): "--count --max --num --lines --head -n",
    ("--data", "--file"): "--body --message --payload --text -m",
    ("--json",): "--output --format -o",
    ("--max-attempts", "--max-deliveries"): "--retries --attempts --max-retries",
    ("--concurrency",): "--workers --threads --parallel -j -c",
    ("--follow",): "--watch --live --tail -w",
    ("--wait", "--timeout"): "--wait --timeout --block",
    ("--dir",): "--db --path --database --bus",
    ("--yes",): "--force -y",
    ("--conversation",): "--thread --correlation-id",
    ("--reply-to",): "--in-reply-to --parent",
    ("--meta", "--header"): "--metadata",
    ("--lease",): "--visibility-timeout --ttl",
    ("--dedupe-key", "--id"): "--key --dedup --idempotency-key",
}


def meant_by(word: str, table: dict[tuple[str, ...], str]) -> tuple[str, ...]:
    """Return the lines or options that a table of this module has for a word of others, or ()."""
    plain = word.lower()
    return next((meant for meant, words in table.items() if plain in words.split()), ())


def choices_of(path: str) -> dict[str, str]:
    """Return the commands that are taken for one another with a command; {} for most.

    Args:
        path: the words of the command after `bus`.
    """
    return next((choices for choices in CHOICES if path in choices), {})
