"""Records of where events go: routes, pipelines, their steps and conditions."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal, NoReturn, TypeVar

from .faults import Fault

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

# Parts of the records of a configuration: frozen objects, places in files, secrets.

_Value = TypeVar("_Value")


class Frozen(dict[str, _Value]):
    """A JSON object that stays as it is, with tuples for lists; JSON writers take it as a dict."""

    __slots__ = ()

    def _refuse(self, *_: Any, **__: Any) -> NoReturn:
        raise TypeError("a loaded configuration can't be changed")

    __setitem__ = __delitem__ = __ior__ = _refuse
    clear = pop = popitem = setdefault = update = _refuse

    def __reduce__(self) -> tuple[type[Frozen[_Value]], tuple[dict[str, _Value]]]:
        return (Frozen, (dict(self),))


@dataclass(frozen=True, slots=True)
class SourceLocation:
    """The place of a setting in the configuration files, for faults that are found later."""

    file: str
    line: int
    path: str

    def fault(self, message: str) -> Fault:
        """Return a fault at this location."""
        return Fault(self.file, self.line, self.path, message)


NOWHERE = SourceLocation("", 0, "")


@dataclass(frozen=True, slots=True)
class Secret:
    """A secret, which only `reveal` shows: no message, record or traceback repeats it."""

    _value: str = field(repr=False)

    def reveal(self) -> str:
        """Return the secret itself."""
        return self._value

    def __str__(self) -> str:
        return "[REDACTED]"


#: The pseudo-plugin that records conditions of steps, and the events that it publishes: a condition
#: holds, or does not. Names of real plugins have no dot.
SWITCH = "core.switch"
SWITCH_EVENTS = {True: "ductile.switch.true", False: "ductile.switch.false"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """Each event of this type from this plugin makes a job of that command.

    `broadcast` sends the event to everybody, not only to the automation.
    """

    source: str
    event_type: str
    to: str
    command: str = "handle"
    broadcast: bool = False
    place: SourceLocation = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class Predicate:
    """A comparison of the value at a dotted path of payload, context or config."""

    path: str
    op: str
    value: object = None


@dataclass(frozen=True, slots=True)
class AllOf:
    """Each of these holds."""

    of: tuple[Condition, ...]


@dataclass(frozen=True, slots=True)
class AnyOf:
    """One of these holds."""

    of: tuple[Condition, ...]


@dataclass(frozen=True, slots=True)
class Not:
    """This does not hold."""

    of: Condition


Condition = Predicate | AllOf | AnyOf | Not


@dataclass(frozen=True, slots=True, kw_only=True)
class PipelineStep:
    """A step of a pipeline: exactly one of uses, call, steps and split is set.

    Attributes:
        uses: a plugin, or plugin.command.
        call: the name of another pipeline.
        steps, split: steps one after another, and side by side.
        with_: keys of the next payload, each a template.
        baggage: durable dotted paths, each with the path that its value comes from.
        baggage_from, namespace: an object that is claimed whole, and the path that it goes to.
        condition: the step is left out where it does not hold.
    """

    id: str | None = None
    uses: str | None = None
    call: str | None = None
    steps: tuple[PipelineStep, ...] = ()
    split: tuple[PipelineStep, ...] = ()
    with_: Mapping[str, str] = field(default_factory=Frozen)
    baggage: Mapping[str, str] = field(default_factory=Frozen)
    baggage_from: str | None = None
    namespace: str | None = None
    condition: Condition | None = None
    place: SourceLocation = field(default=NOWHERE, compare=False)

    @property
    def plugin(self) -> str:
        """The plugin that `uses` names, or ""."""
        return (self.uses or "").partition(".")[0]

    @property
    def command(self) -> str:
        """The command that `uses` names: `handle`, unless it says otherwise."""
        return (self.uses or "").partition(".")[2] or "handle"


@dataclass(frozen=True, slots=True, kw_only=True)
class Pipeline:
    """A named list of steps, started by an event or by the end of a job.

    Attributes:
        on: the type of event; None where `on_hook` names a signal.
        from_plugin: the one plugin whose events begin it; None is any.
        max_depth: the author's limit of hops; 0 is no limit, None is the default.
        timeout_s: how long a synchronous caller waits.
    """

    name: str
    on: str | None = None
    on_hook: str | None = None
    from_plugin: str | None = None
    condition: Condition | None = None
    max_depth: int | None = None
    execution_mode: Literal["async", "synchronous"] = "async"
    timeout_s: float = 30.0
    steps: tuple[PipelineStep, ...] = ()
    place: SourceLocation = field(default=NOWHERE, compare=False)
