"""docs/cli.md says what the command line really takes."""

from . import reference


def test_reference_is_rendered_from_the_commands() -> None:
    """Issue 2, item 1: the CLI reference is checked by a test."""
    assert reference.FILE.read_text("utf-8") == reference.render(), (
        "run: python tests/cli/reference.py --write"
    )


def test_help_describes_every_parameter() -> None:
    for path, command in reference.commands():
        for parameter in command.params:
            assert parameter.help, (path, parameter.name)
