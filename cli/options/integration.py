"""The options of an integration."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Annotated, cast

import typer

from ...git.branches.repositories import Place
from ...tasks.integrate.checks import Check
from ...tasks.integrate.rules import AGENT, Rules, checks_of
from .. import arguments
from ..definition import optional

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


@dataclass(frozen=True, kw_only=True)
class Integration:
    """The target, the checks, and the way in which a commit comes to the target."""

    into: Annotated[
        str | None,
        optional("BRANCH", "The target. Default: the branch of the main tree.", "--into"),
    ] = None
    check: Annotated[
        list[str] | None,
        optional("CMD", "Must pass on each candidate; it may be repeated.", "--check"),
    ] = None
    flaky: Annotated[
        list[str] | None,
        optional("CMD", "A check that is run twice before it fails; may be repeated.", "--flaky"),
    ] = None
    check_timeout: Annotated[
        str, typer.Option("--check-timeout", metavar="D", help="How long each check may take.")
    ] = "300s"
    batch: Annotated[
        int, typer.Option("--batch", metavar="N", help="How many are tested together at most.")
    ] = 8
    strategy: Annotated[
        str, typer.Option("--strategy", metavar="S", help="merge, cherry-pick or ff.")
    ] = "merge"
    push: Annotated[
        bool, typer.Option("--push", help="Move the branch of the remote, by a plain push.")
    ] = False
    remote: Annotated[
        str, typer.Option("--remote", metavar="NAME", help="The remote of --push.")
    ] = "origin"
    propose: Annotated[
        str | None,
        optional("CMD", "Do not move the target: run this with $BUS_CANDIDATE.", "--propose"),
    ] = None
    repo: Annotated[
        str, typer.Option("--repo", metavar="FOLDER", help="A folder in the repository.")
    ] = "."

    def place(self) -> Place:
        """Return the repository.

        Raises:
            GitFailed: there is none.
        """
        return Place.around(self.repo if self.repo == os.curdir else os.path.abspath(self.repo))

    def rules(self, place: Place, agent: str | None) -> Rules:
        """Return the rules that the options give, in a repository.

        Raises:
            InvalidInput: they give none.
        """
        given = [Check(text) for text in self.check or ()]
        given += [Check(text, is_flaky=True) for text in self.flaky or ()]
        return Rules(
            target=self.into or place.default_branch() or "main",
            checks=tuple(given) or checks_of(place),
            strategy=cast("Any", self.strategy),
            check_timeout_s=arguments.seconds(self.check_timeout, "--check-timeout"),
            batch=self.batch,
            remote=self.remote if self.push else None,
            propose=self.propose,
            agent=agent or os.environ.get("BUS_AGENT") or AGENT,
        )


#: The default of a command's parameter for them, which Python requires.
AS_GIVEN = Integration()
