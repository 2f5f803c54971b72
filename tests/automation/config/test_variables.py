"""Variables are filled after files are verified, and whatever they hold is one value."""

import pytest

from ackbus.automation.config.yaml_tree import environment_of

from ..conftest import Folder


def config_of(folder: Folder, text: str, **environ: str) -> object:
    folder.write(config=f"plugins:\n  echo:\n    config: {text}\n")
    return folder.load(environ).plugins["echo"].config


@pytest.mark.requirement("D-80", "D-152")
def test_variables_are_filled_with_the_types_that_they_would_have_written_out(
    folder: Folder,
) -> None:
    text = "{a: '${A}', b: ${A}, c: x${A}y, d: ${FLAG}, e: ${A}${B}}"
    config = config_of(folder, text, A="5", B="x", FLAG="true")
    assert config == {"a": "5", "b": 5, "c": "x5y", "d": True, "e": "5x"}


@pytest.mark.parametrize("secret", ["a: b # c", '"', "x\ny: 1", "[", "- a", "{a", "*x", "!t", "%"])
@pytest.mark.requirement("D-152")
def test_a_secret_stays_whole_whatever_it_holds(folder: Folder, secret: str) -> None:
    assert config_of(folder, "{a: ${S}}", S=secret) == {"a": secret}


def test_a_filled_value_is_not_filled_again(folder: Folder) -> None:
    assert config_of(folder, "{a: ${A}}", A="${B}", B="no") == {"a": "${B}"}


def test_other_forms_stay_as_they_are(folder: Folder) -> None:
    text = "{a: '$HOME ${X:-y} ${1} $(id)'}"
    assert config_of(folder, text, HOME="/h", X="x") == {"a": "$HOME ${X:-y} ${1} $(id)"}


@pytest.mark.requirement("D-152")
def test_every_undefined_variable_in_use_is_an_error_at_its_line(folder: Folder) -> None:
    folder.write(
        config="""
            # ${COMMENTED}
            x-unused: ${UNUSED}
            service: {name: "${NAME}"}
            plugins:
              off: {enabled: false, config: {a: "${OFF}"}}
              echo:
                config:
                  url: https://${HOST}/${HOST}
        """
    )
    assert folder.told() == [
        "config.yaml:3: service.name: the variable NAME is not defined; set it, or name a file"
        " that does in environment_vars.include",
        "config.yaml:8: plugins.echo.config.url: the variable HOST is not defined; set it, or name"
        " a file that does in environment_vars.include",
    ]
    assert folder.load({"NAME": "n", "HOST": "h"}).plugins["echo"].config == {"url": "https://h/h"}


@pytest.mark.requirement("D-152")
def test_the_seal_and_the_hash_do_not_depend_on_variables(folder: Folder) -> None:
    folder.write(config="service: {name: ${N}}\n")
    folder.lock()
    first, second = folder.load({"N": "a"}), folder.load({"N": "b"})
    assert (first.service.name, second.service.name) == ("a", "b")
    assert (first.hash, first.warnings) == (second.hash, ()) == (second.hash, second.warnings)


def test_files_of_variables_are_read_and_the_environment_wins(folder: Folder) -> None:
    folder.write(
        config="""
            environment_vars: {include: [.env, sub/more.env]}
            plugins: {echo: {config: {a: "${A}", b: "${B}", c: "${C}"}}}
        """
    )
    folder.write_as(".env", "A=file\nB=file\n")
    folder.write_as("sub/more.env", "B=later\nexport C='a # b'\n")
    config = folder.load({"A": "environment"})
    expected = {"a": "environment", "b": "later", "c": "a # b"}
    assert config.plugins["echo"].config == expected


def test_lines_of_variables_have_quotes_and_comments() -> None:
    text = '# x\n\nA=1\nexport B = two words # x\nC="q # q"\nD=\nE=\'x\nwrong line\n'
    found, faults = environment_of(text, ".env")
    assert found == {"A": "1", "B": "two words", "C": "q # q", "D": "", "E": "'x"}
    assert [str(fault) for fault in faults] == [".env:8: write a variable as NAME=value"]


def test_a_missing_file_of_variables_is_refused(folder: Folder) -> None:
    folder.write(config="environment_vars: {include: [.env]}\n")
    (told,) = folder.told()
    assert told.startswith("config.yaml:1: environment_vars.include[0]: can't read .env: No such")


def test_variable_that_is_no_text_is_a_fault_where_a_plugin_would_read_it(folder: Folder) -> None:
    folder.write(
        config="""
            tokens: [{name: hook, key: "${K}"}]
            plugins: {echo: {config: {a: "${K}"}}}
        """
    )
    told = "config.yaml:2: plugins.echo.config.a: the variable K is not UTF-8"
    assert folder.told(K="k\udcff") == [told]


#: Lines, and the value of K on which the readers of such files agree; None: a fault.
LINES: dict[str, str | None] = {
    'K="v" # note': "v",
    "K='v' # note": "v",
    'K="v"#note': "v",
    'K="v"\t# note': "v",
    "K=v # note": "v",
    "K=v\t# note": "v",
    "K=v#note": "v#note",
    "K= # note": "",
    "K=": "",
    'K=""': "",
    "K=''  ": "",
    "K = v ": "v",
    "export K=v": "v",
    "  K=v": "v",
    'K=" v "': " v ",
    "K='a \\n b'": "a \\n b",
    'K="a\\nb"': "a\nb",
    'K="a\\"b"': 'a"b',
    'K="a\\\\"': "a\\",
    'K="a # b"': "a # b",
    "K=it's": "it's",
    'K=a"b"': 'a"b"',
    "K=a=b==": "a=b==",
    "K='$A'": "$A",
    'K="two\nlines" # note': "two\nlines",
    "K=a\u2028b\x85c": "a\u2028b\x85c",
    "K=v\r": "v",
    'K="a"b': None,
    "K='a' 'b'": None,
    "K": None,
    "K: v": None,
}


@pytest.mark.parametrize(("line", "value"), LINES.items(), ids=map(ascii, LINES))
def test_line_means_what_others_read(line: str, value: str | None) -> None:
    """Issue 31, item 8; and the number of a wrong line counts those of a value before it."""
    text = f"\ufeffA=1\n{line}\nB=2\nwrong\n"
    found, faults = environment_of(text, ".env")
    *own, wrong = map(str, faults)
    breaks = line.count("\n")
    assert wrong == f".env:{4 + breaks}: write a variable as NAME=value"
    assert (found["A"], found["B"]) == ("1", "2")
    if value is None:
        assert [fault.split(" ")[0] for fault in own] == [".env:2:"]
    else:
        assert (found["K"], own) == (value, [])


@pytest.mark.parametrize("value", ['"v"', "'v", "v'", " qx7", "qx7 ", "`v`", "v", "a'b"])
def test_suspicious_secret_is_warned_of(value: str, folder: Folder) -> None:
    """An instance that the issue does not name: `docker --env-file` hands quotes on."""
    folder.write(config='tokens: [{name: hook, key: "${K}"}]\n')
    warnings = [str(each) for each in folder.load({"K": value}).warnings]
    told = [each for each in warnings if "quote or a blank" in each]
    assert len(told) == (value not in ("v", "a'b"))
    assert all("tokens[0].key" in each for each in told)
