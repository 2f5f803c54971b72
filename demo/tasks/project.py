"""The project of the demo: a small repository, its check, its planner and its scripted agent."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path

from ...git.repository import Repository

#: The tasks that the planner makes of the request, in order, each with the tasks before it.
PRICE_LOW, PRICE_HIGH = "price-low", "price-high"
PLUMS, CELLAR, APPLES, PEARS = "add-plums", "count-cellar", "count-apples", "count-pears"
PLAN = {
    PRICE_LOW: (),
    PRICE_HIGH: (),
    CELLAR: (),
    PLUMS: (),
    APPLES: (),
    PEARS: (APPLES,),
}

#: The check of the project: each fruit in stock has a price, and no file has marks of a conflict.
CHECK = "sh check.sh"

_CHECK_SCRIPT = """\
#!/bin/sh
for stock in stock/*.txt; do
    [ -f "prices/${stock#stock/}" ] || { echo "no price for $stock"; exit 1; }
done
! grep -q '^[<=>]\\{7\\}' stock/*.txt prices/*.txt
"""

_FILES = {
    "check.sh": _CHECK_SCRIPT,
    "stock/apples.txt": "1\n",
    "stock/pears.txt": "1\n",
    "stock/cherries.txt": "1\n",
    "prices/apples.txt": "3\n",
    "prices/pears.txt": "2\n",
    "prices/cherries.txt": "5\n",
}

# In place of a coding agent: it edits the files in its work tree, and commits. On its second
# attempt it does what the end of the first one asks for. `$DEMO` is a folder beside the project, in
# which the agents meet: two begin at once, and one is held until it is killed.
_AGENT = """\
#!/bin/sh
set -eu
commit() { git add -A && git commit -qm "$1"; }
case $BUS_TASK in
    price-*)
        [ "${BUS_TASK#price-}" = low ] && price=4 || price=6
        if [ "$BUS_TASK_ATTEMPT" = 1 ]; then
            : > "$DEMO/$BUS_TASK"
            until [ -e "$DEMO/price-low" ] && [ -e "$DEMO/price-high" ]; do sleep 0.02; done
            echo "$price" > prices/cherries.txt
            commit "Cherries cost $price"
        else
            git merge -q -X ours -m "Cherries cost $price, after all" "$BUS_TASK_TARGET"
        fi ;;
    add-plums)
        if [ "$BUS_TASK_ATTEMPT" = 1 ]; then
            echo 9 > stock/plums.txt
            commit "Sell plums"
        else
            echo 7 > prices/plums.txt
            commit "Give plums a price"
        fi ;;
    count-cellar)
        if [ "$BUS_TASK_ATTEMPT" = 1 ]; then
            echo 40 > stock/cherries.txt
            commit "Count half of the cellar"
            : > "$DEMO/held"
            while :; do sleep 0.05; done
        fi
        echo 80 > stock/cherries.txt
        commit "Count the other half of the cellar" ;;
    count-apples) echo 12 > stock/apples.txt; commit "Count the apples" ;;
    count-pears) echo 8 > stock/pears.txt; commit "Count the pears" ;;
esac
"""


class Project:
    """The folder of the demo, with the repository and the programs of its roles.

    Args:
        folder: where it is made; it is empty.

    Attributes:
        repository: the path of the repository.
        meeting: the folder in which the agents meet.
        agent, planner: the programs.
    """

    def __init__(self, folder: str) -> None:
        self.repository = os.path.join(folder, "shop")
        self.meeting = os.path.join(folder, "meeting")
        self.agent = os.path.join(folder, "agent.sh")
        self.planner = os.path.join(folder, "planner.sh")
        self._git = Repository(self.repository)

    def make(self) -> None:
        """Make the repository with its first commit, and the programs."""
        for name, text in _FILES.items():
            _write(os.path.join(self.repository, name), text)
        os.makedirs(self.meeting)
        _write(self.agent, _AGENT, is_program=True)
        _write(self.planner, _planner(), is_program=True)
        self._git.run("init", "--quiet", "--initial-branch=main")
        for name, value in (("name", "demo"), ("email", "demo@localhost")):
            self._git.run("config", f"user.{name}", value)
        self._git.run("config", "commit.gpgSign", "false")
        self._git.run("add", "--all")
        self._git.run("commit", "--quiet", "--message", "Open the shop")

    def positions(self) -> list[str]:
        """Return the commits that the branch `main` was at, the newest first."""
        return self._git.run("rev-list", "--walk-reflogs", "main").decode().split()

    def is_kept(self, commit: str) -> bool:
        """Whether a branch or a rescue ref still has a commit."""
        refs = self._git.run("for-each-ref", "--contains", commit, "--format=%(refname)")
        return bool(refs.strip())

    def read(self, name: str) -> str:
        """Return the content of a file on the branch `main`."""
        return self._git.run("show", f"main:{name}").decode()


def _planner() -> str:
    jobs = [
        {
            "type": "task.job",
            "payload": {
                "task": task,
                "prompt": f"Do what {task} says.",
                "depends_on": list(before),
            },
        }
        for task, before in PLAN.items()
    ]
    answer = json.dumps({"status": "ok", "result": "six jobs", "events": jobs})
    return f"#!/bin/sh\ncat > /dev/null\ncat <<'ANSWER'\n{answer}\nANSWER\n"


def _write(path: str, text: str, *, is_program: bool = False) -> None:
    os.makedirs(os.path.dirname(path), exist_ok=True)
    Path(path).write_text(text, "utf-8")
    if is_program:
        os.chmod(path, stat.S_IRWXU)
