"""The commit of what a program left in its work tree without committing it."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass

from ...git.trees.tree_state import embedded_in, named, read_state, repository_of, stage_all
from ...schema.errors import InvalidInput, Refused, shown
from ..steps.titles import subject_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ...git.trees.tree_list import Tree
    from ...git.trees.tree_state import TreeState
    from ..records.task import Task

#: How long git, with its filters, may take for one step, in seconds.
_LIMIT_S = 300.0

_AUTHOR = re.compile(r"\s*([^<>\n]+?)\s*<([^<>\n]+)>\s*")


@dataclass(frozen=True, slots=True)
class Author:
    """The author of the commits that a worker makes.

    Attributes:
        name, email: of the author.
    """

    name: str
    email: str

    @classmethod
    def of(cls, worker: str, given: str | None = None) -> Author:
        """Return the author that is given as `NAME <EMAIL>`, else one named as the worker.

        Raises:
            InvalidInput: it has another form.
        """
        if given is None:
            plain = re.sub(r"[^A-Za-z0-9._-]", "-", worker)
            return cls(re.sub(r"[<>\n]", " ", worker), f"{plain}@ackbus.invalid")
        found = _AUTHOR.fullmatch(given)
        if found is None:
            raise InvalidInput(f"the author must be like 'Name <name@host>', not {shown(given)}")
        return cls(found[1], found[2])

    def variables(self) -> dict[str, str | None]:
        """Return the variables by which git knows it."""
        return {
            f"GIT_{who}_{what}": value
            for who in ("AUTHOR", "COMMITTER")
            for what, value in (("NAME", self.name), ("EMAIL", self.email))
        }


def commit_leftovers(tree: Tree, task: Task, prompt: str, author: Author) -> TreeState:
    """Commit what the work tree of a task has and its branch has not; return its state then.

    Hooks are not run, and nothing is signed: nobody is there to answer, and the integrator checks
    what lands. Files that git ignores stay out; those
    outside a sparse checkout do not.

    Raises:
        Refused: the tree is on another branch, an operation is under way in it, or a folder of it
            is a repository by itself.
        GitFailed: git failed.
    """
    state = read_state(tree, task.base)
    if state.branch != task.branch:
        on = "no branch" if state.branch is None else f"branch {shown(state.branch)}"
        raise Refused(f"its work tree is on {on}, not on {shown(task.branch)}")
    if state.operation:
        raise Refused(f"a {state.operation} is under way in its work tree")
    git = repository_of(tree, author.variables())
    if not state.is_clean:
        stage_all(git, embedded_in(tree), _LIMIT_S)
    if found := embedded_in(tree):
        raise Refused(
            f"in its work tree there are repositories by themselves: {named(found)}; git would have"
            " none of their files"
        )
    if state.is_clean:
        return state
    if not git.run("diff", "--cached", "--name-only", "HEAD", limit_s=_LIMIT_S):
        return state  # by filters, or by times alone, it looked changed
    subject = subject_of(prompt) or f"Work on {task.task}"
    message = f"{subject}\n\nTask: {task.task}\nAttempt: {task.attempt}\n"
    command = ("commit", "--quiet", "--no-verify", "--no-gpg-sign", "--file=-")
    git.run(
        "-c", "core.hooksPath=/dev/null", *command, stdin=os.fsencode(message), limit_s=_LIMIT_S
    )
    return read_state(tree, task.base)
