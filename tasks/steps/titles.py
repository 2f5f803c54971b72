"""Titles of tasks, as first lines of commits: one line of printable characters."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..records.task import Task

#: How long the first line of a commit's message is at most, in characters.
SUBJECT_CHARS = 72

#: The fields in which a planner may have put the words of a prompt.
PROMPTS = ("prompt", "instruction")


def subject_of(text: str, limit: int = SUBJECT_CHARS) -> str:
    """Return the first line of a text that says something, cut at a word; "" without one."""
    lines = (" ".join(line.split()).lstrip("#-* ") for line in text.splitlines())
    words = "".join(char for char in next(filter(None, lines), "") if char.isprintable())
    if len(words) <= limit:
        return words
    cut = words[: limit - 1].rpartition(" ")[0]
    return f"{cut or words[: limit - 1]}…"


def merge_title(task: Task) -> str:
    """Return the first line of the commit that merges a task: its name, and what was to be done."""
    name = f"Merge {task.task}"
    left = SUBJECT_CHARS - len(name) - 2
    title = subject_of(_words(task.prompt), left) if left > 1 else ""
    return f"{name}: {title}" if title else name


def _words(prompt: object) -> str:
    if isinstance(prompt, dict):
        params = prompt.get("params")
        parts = [prompt, *([params] if isinstance(params, dict) else [])]
        found = (part.get(name) for part in parts for name in PROMPTS)
        prompt = next((each for each in found if isinstance(each, str) and each.strip()), None)
    return prompt if isinstance(prompt, str) else ""
