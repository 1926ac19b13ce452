"""One run of the command line: the command that it names, errors as one line and a status, and the environment."""

from __future__ import annotations

import io
from collections.abc import Callable
from importlib import import_module
from inspect import signature
from types import SimpleNamespace
from typing import Annotated, NamedTuple

import pytest

from kcli.cli import app, command_table, exit_status, parser
from kcli.cli.environment import Environment
from kcli.cli.options import Common
from kcli.cli.parser import Argument, Option, build_tree
from kcli.error_codes import ErrorCode
from kcli.errors import BrokerError, ConfigError, DisconnectedError, OutcomeUnknown, TimeoutExpired, WakeupError
from tests.cli.command_lines import ARGUMENTS, WITHOUT_ARGUMENTS
from tests.cli.fake import FakeEnvironment, Result, run_kcli


@pytest.fixture
def run_body(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Result]:
    """Run a command line with this function as the body of every command."""

    def start(body: Callable[..., int], *argv: str, **environment: object) -> Result:
        monkeypatch.setattr(parser, "_load", lambda _module: body)
        return run_kcli(*(argv or ("topic", "list")), **environment)  # type: ignore[arg-type]

    return start


def failing(error: BaseException) -> Callable[..., int]:
    def body(env: Environment, common: Common) -> int:
        raise error

    return body


@pytest.mark.parametrize(
    ("line", "words", "path"),
    [
        ("topic list -l", "topic list -l", ("topic", "list")),
        ("consume topic orders -e", "consume topic orders -e", ("consume", "topic")),
        ("consume orders -e", "consume topic orders -e", ("consume", "topic")),
        ("consume -o start orders", "consume topic -o start orders", ("consume", "topic")),
        ("produce orders", "produce orders", ("produce",)),
        ("consume --help", "consume --help", None),
        ("topic", "topic", None),
        ("--help", "--help", None),
        ("", "--help", None),
    ],
)
def test_the_first_words_name_a_command(line: str, words: str, path: tuple[str, ...] | None) -> None:
    assert app.find_command(line.split()) == (words.split(), path)


@pytest.mark.parametrize(
    ("line", "suggestion"),
    [
        ("tpic list", "did you mean 'kcli topic'?"),
        ("topic lst", "did you mean 'kcli topic list'?"),
        ("prodcue x", "did you mean 'kcli produce'?"),
        ("zzz", "use one of topic, consume, group, transaction, offsets, assignor, compat, cluster, schema, profile, "),
    ],
)
def test_a_mistyped_command_gets_one_line_and_a_suggestion(line: str, suggestion: str) -> None:
    status, out, err = run_kcli(*line.split())
    assert (status, out) == (2, b"")
    assert suggestion in err
    assert err.count("\n") == 1


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("topic", "the command is missing"),
        ("topic list --lnog", "there is no option --lnog; did you mean --long?"),
        ("topic list --timeout soon", "--timeout: 'soon' is not a number"),
        ("topic list --timeout -3", "--timeout: '-3' is not valid; use a number of seconds above 0"),
        ("topic list --output yaml", "--output: 'yaml' is not valid; use table, json, jsonl, csv or tsv"),
        (
            "topic list -X fetch.min.bytes",
            "-X: value 1 is not valid; write key=value (it is not shown: it may contain a password)",
        ),
        ("topic list --command-config /nowhere", "cannot read properties file /nowhere: No such file"),
        ("topic list extra", "unexpected argument: extra"),
        ("topic create t -p 2147483648", "--partitions: 2147483648 is out of range; use 1 to 2147483647"),
        ("topic create t -r 32768", "--replication: 32768 is out of range; use 1 to 32767"),
    ],
)
def test_a_usage_error_is_one_line_and_status_2(line: str, message: str) -> None:
    status, out, err = run_kcli(*line.split())
    assert (status, out) == (2, b"")
    assert message in err
    assert err.startswith("kcli: ")
    assert err.count("\n") == 1


def test_help_lists_every_command_with_its_line() -> None:
    shown = run_kcli("--help")
    assert shown.status == 0
    assert run_kcli() == shown
    for group, line in command_table.GROUPS.items():
        assert group in shown.text
        assert line in shown.text
    topic = run_kcli("topic", "--help").text
    for path, line in command_table.COMMANDS.items():
        assert path[0] != "topic" or (path[1] in topic and line in topic)


def test_every_command_of_the_table_loads_and_has_help() -> None:
    for path in command_table.COMMANDS:
        shown = run_kcli(*path, "--help")
        assert shown.status == 0, shown.err
        assert f"Usage: kcli {' '.join(path)}" in shown.text
        parameters = signature(import_module(command_table.module_of(path)).run).parameters
        connects = parameters.keys() & {"common", "job"} or path[0] == "compat"  # which has options of its own
        assert ("--bootstrap-server" in shown.text) == bool(connects)


def test_every_command_has_a_command_line_for_the_tests() -> None:
    assert not ARGUMENTS.keys() & WITHOUT_ARGUMENTS
    missing = command_table.COMMANDS.keys() - ARGUMENTS.keys() - WITHOUT_ARGUMENTS
    assert not missing, f"add arguments of {missing} to tests/cli/command_lines.py"


def test_the_whole_tree_can_be_built_for_documentation_and_completion() -> None:
    tree = build_tree(FakeEnvironment(), app.report, whole=True)
    assert {"topic", "consume", "cluster", "produce"} <= set(tree.commands)
    assert "--long" in [opt for param in tree.commands["topic"].commands["list"].params for opt in param.opts]


# Options whose name has different meanings in different commands.
NAMESAKES = {"--compression", "--format", "--key", "--member", "--partitions"}


def test_an_option_has_the_same_short_form_in_every_command() -> None:
    """-o is an offset and -O the output format; the words of `kcli compat` are Apache's."""
    tree = build_tree(FakeEnvironment(), app.report, whole=True)
    shorts: dict[str, set[str]] = {}
    for path in command_table.COMMANDS:
        command = tree
        for word in path:
            command = command.commands[word]
        names = [name for parameter in command.params for name in parameter.opts if name.startswith("-")]
        assert len(names) == len(set(names)), path
        for parameter in command.params:
            if path[0] != "compat" and parameter.opts[0].startswith("--"):
                shorts.setdefault(parameter.opts[0], set()).add(" ".join(parameter.opts[1:]))
    assert {name: short for name, short in shorts.items() if len(short) > 1 and name not in NAMESAKES} == {}
    assert shorts["--offset"] == {"-o"}
    assert shorts["--output"] == {"-O"}
    assert not {"--json", "--csv"} & shorts.keys()


@pytest.mark.parametrize("word", ["-o json", "--json", "--csv"])
def test_an_output_option_of_other_programs_is_answered_with_ours(word: str) -> None:
    expected = "FORMAT" if word.startswith("-o") else word.removeprefix("--")
    assert f"; use --output {expected} or -O {expected} (see" in run_kcli("group", "list", *word.split()).err
    assert "--output" not in run_kcli("demo", *word.split()).err
    assert "the output format is -O or --output" in run_kcli("consume", "orders", "-o", "json").err


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (ConfigError("bad"), 2),
        (BrokerError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, topic="t"), 3),
        (BrokerError(ErrorCode.GROUP_ID_NOT_FOUND, group="g"), 3),
        (BrokerError(ErrorCode.TOPIC_AUTHORIZATION_FAILED, topic="t"), 4),
        (BrokerError(ErrorCode.REQUEST_TIMED_OUT), 5),
        (BrokerError(ErrorCode.TOPIC_ALREADY_EXISTS, topic="t"), 1),
        (TimeoutExpired("late"), 5),
        (DisconnectedError("gone"), 5),
        (OSError(28, "No space left on device"), 1),
        (MemoryError(), 1),
        (ZeroDivisionError("division by zero"), 1),
    ],
)
def test_an_error_is_one_line_and_a_status(run_body: Callable[..., Result], error: Exception, status: int) -> None:
    result = run_body(failing(error))
    assert result.status == status
    assert result.err.startswith("kcli: ")
    assert result.err.count("\n") == 1
    assert "Traceback" not in result.err
    assert ("internal error" in result.err) == isinstance(error, ZeroDivisionError)


def test_a_full_disk_is_reported_without_its_error_number(run_body: Callable[..., Result]) -> None:
    assert run_body(failing(OSError(28, "No space left on device"))).err == (
        "kcli: standard output: No space left on device\n"
    )
    assert run_body(failing(PermissionError(13, "Permission denied", "/x"))).err == "kcli: /x: Permission denied\n"


def test_control_characters_in_messages_are_escaped(run_body: Callable[..., Result]) -> None:
    hostile = BrokerError(ErrorCode.INVALID_TOPIC_EXCEPTION, "no\x1b[2J such\nname \x9b31m \u202e", topic="a\x1b[31mb")
    result = run_body(failing(hostile))
    assert result.err.count("\n") == 1
    assert result.err.rstrip("\n").isprintable()
    assert r"a\x1b[31mb" in result.err

    def body(env: Environment, common: Common) -> int:
        env.report("a name\nkcli: forged \x1b[2J")
        env.report_lines(["two", "lines \x1b[2J"])
        return 0

    assert run_body(body).err == "a name\\nkcli: forged \\x1b[2J\ntwo\nlines \\x1b[2J\n"


def test_verbose_adds_the_causes(run_body: Callable[..., Result]) -> None:
    error = TimeoutExpired("no broker answered in time")
    error.__cause__ = ConnectionRefusedError(111, "Connection refused")
    assert run_body(failing(error)).err == "kcli: no broker answered in time\n"
    for result in (
        run_body(failing(error), "topic", "list", "-v"),
        run_body(failing(error), environ={"KCLI_VERBOSE": "1"}),
    ):
        assert result.err.splitlines()[1:] == [
            "kcli:   because: ConnectionRefusedError: [Errno 111] Connection refused"
        ]


def test_verbose_ends_where_the_causes_repeat(run_body: Callable[..., Result]) -> None:
    error, cause = ConfigError("the first"), ConfigError("the second")
    error.__cause__, cause.__cause__ = cause, error
    result = run_body(failing(error), "topic", "list", "-v")
    assert result.err == "kcli: the first\nkcli:   because: ConfigError: the second\n"


def test_a_traceback_is_shown_only_when_asked_for(run_body: Callable[..., Result]) -> None:
    result = run_body(failing(ZeroDivisionError("division by zero")), environ={"KCLI_DEBUG": "1"})
    assert "Traceback" in result.err
    assert result.err.splitlines()[-1] == "kcli: internal error: ZeroDivisionError: division by zero"


def test_an_interrupt_prints_nothing_and_returns_130(run_body: Callable[..., Result]) -> None:
    assert run_body(failing(KeyboardInterrupt())) == (130, b"", "")


def test_an_error_that_an_interrupt_has_caused_prints_nothing_and_returns_130(run_body: Callable[..., Result]) -> None:
    wrapped = RuntimeError("Error calling __set_name__ on 'x'")  # as Python 3.11 wraps one while it makes an enum
    wrapped.__cause__ = KeyboardInterrupt()
    assert run_body(failing(wrapped)) == (130, b"", "")
    hiding = KeyError("not registered")  # `raise ... from None` while an interrupt is handled
    hiding.__context__, hiding.__suppress_context__ = KeyboardInterrupt(), True
    assert run_body(failing(hiding)) == (130, b"", "")
    assert run_body(failing(WakeupError("woken"))) == (130, b"", "")


def test_an_interrupt_does_not_hide_an_unknown_outcome(run_body: Callable[..., Result]) -> None:
    unknown = OutcomeUnknown("the answer was lost")
    unknown.__context__ = KeyboardInterrupt()
    assert run_body(failing(unknown)).err == "kcli: the answer was lost\n"


def test_a_closed_pipe_is_a_quiet_success(run_body: Callable[..., Result]) -> None:
    assert run_body(failing(BrokenPipeError(32, "Broken pipe"))) == (0, b"", "")


def test_the_commands_status_is_returned(run_body: Callable[..., Result]) -> None:
    def body(env: Environment, common: Common) -> int:
        return exit_status.THRESHOLD

    assert run_body(body).status == 6


def test_a_command_may_declare_a_common_option_itself(run_body: Callable[..., Result]) -> None:
    def body(
        env: Environment, common: Common, output: Annotated[str, Option("--output", help="Its own.")] = "raw"
    ) -> int:
        env.stdout.write(f"{output} {common.output}\n")
        return 0

    assert run_body(body, "topic", "list", "--output", "hex").text == "hex None\n"
    assert "Its own." in run_body(body, "topic", "list", "--help").text


class Limits(NamedTuple):
    most: Annotated[int, Option("--most", help="The most.")] = 7
    least: Annotated[int | None, Option("--least")] = None

    def check(self) -> None:
        if self.least is not None and self.least > self.most:
            raise ConfigError("--least is more than --most")


def limited(env: Environment, name: Annotated[str, Argument()], limits: Limits, last: bool = False) -> int:
    env.stdout.write(f"{name} {limits.most} {limits.least} {last}\n")
    return 0


def test_a_parameter_stands_for_the_options_of_its_class_at_its_place(run_body: Callable[..., Result]) -> None:
    assert run_body(limited, "topic", "list", "a").text == "a 7 None False\n"
    assert run_body(limited, "topic", "list", "a", "--least", "5").text == "a 7 5 False\n"
    text = run_body(limited, "topic", "list", "--help").text
    assert text.index("--most") < text.index("--least") < text.index("--last")


def test_a_class_of_options_is_checked_before_the_command_runs(run_body: Callable[..., Result]) -> None:
    result = run_body(limited, "topic", "list", "a", "--least", "8")
    assert (result.status, result.text, result.err) == (2, "", "kcli: --least is more than --most\n")


def test_a_command_may_declare_an_option_of_a_class_itself(run_body: Callable[..., Result]) -> None:
    def body(env: Environment, most: Annotated[str, Option("--most")], limits: Limits) -> int:
        return limited(env, most, limits)

    assert run_body(body, "topic", "list", "--most", "many", "--least", "1").text == "many 7 1 False\n"


def test_items_with_one_common_status_return_it_and_others_1() -> None:
    unknown, denied = (
        BrokerError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        BrokerError(ErrorCode.TOPIC_AUTHORIZATION_FAILED),
    )
    assert exit_status.status_of_all([None, None]) == 0
    assert exit_status.status_of_all([None, unknown, unknown]) == 3
    assert exit_status.status_of_all([unknown, denied]) == 1


def test_text_and_bytes_on_standard_output_keep_their_order() -> None:
    env = FakeEnvironment()
    env.stdout.write("text ")
    env.stdout_bytes.write(b"\xff ")
    env.stdout.write("text")
    assert env.result(0).out == b"text \xff text"


def test_colour_needs_a_terminal_and_no_no_color() -> None:
    assert FakeEnvironment(terminal=True).colour
    assert not FakeEnvironment(terminal=True, environ={"NO_COLOR": "1"}).colour
    dumb = FakeEnvironment(terminal=True, environ={"TERM": "dumb"})
    assert (dumb.colour, dumb.can_redraw) == (False, False)
    assert not FakeEnvironment().colour


def test_width_comes_from_the_environment_else_the_terminal_else_80() -> None:
    assert FakeEnvironment(environ={"COLUMNS": "132"}).width == 132
    assert FakeEnvironment(environ={"COLUMNS": "wide"}).width == 80


@pytest.fixture
def process_output(monkeypatch: pytest.MonkeyPatch) -> io.BytesIO:
    """The bytes that have left `sys.stdout` of a process whose streams are buffered Latin-1."""
    written = io.BytesIO()
    latin = io.TextIOWrapper(io.BufferedWriter(written), "latin-1")  # type: ignore[arg-type]
    streams = SimpleNamespace(stdin=io.StringIO(), stdout=latin, stderr=io.TextIOWrapper(io.BytesIO(), "latin-1"))
    monkeypatch.setattr("kcli.cli.environment.sys", streams)
    return written


def test_unencodable_text_is_escaped_in_the_real_process(process_output: io.BytesIO) -> None:
    env = Environment.of_process()
    env.stdout.write("\u20ac")
    env.stdout.flush()
    assert process_output.getvalue() == b"\\u20ac"


def test_a_line_leaves_the_real_process_when_it_is_printed(process_output: io.BytesIO) -> None:
    """Python buffers standard output into a pipe; `kcli demo` and followed reads would be silent for long."""
    env = Environment.of_process()
    env.stdout.write("one\ntwo")
    assert process_output.getvalue() == b"one\ntwo"


@pytest.mark.parametrize(
    ("words", "blame"),
    [
        (("topic", "describe", "a\udcff"), "TOPIC"),
        (("group", "lag", "good", "\udcff"), "GROUP"),
        (("consume", "t", "-g", "\udcff"), "--group"),
        (("group", "list", "--match", "\udcff"), "--match"),
    ],
)
def test_an_argument_that_is_not_utf_8_is_wrong_usage(words: tuple[str, ...], blame: str) -> None:
    result = run_kcli(*words, "-b", "127.0.0.1:1")
    assert result.status == 2
    assert result.err.startswith(f"kcli: {blame}: ")
    assert result.err.endswith("is not valid; use UTF-8\n")


def test_bytes_of_records_and_paths_need_not_be_utf_8() -> None:
    sought = run_kcli("consume", "t", "--grep", "\udcff", "-b", "127.0.0.1:1", "--timeout", "0.2")
    assert sought.status == 5
    missing = run_kcli("offsets", "apply", "/gone\udcff", "-b", "127.0.0.1:1")
    assert "No such file" in missing.err
