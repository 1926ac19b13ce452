"""The imports of a start: as few as the command needs, because runbooks start kcli often."""

from __future__ import annotations

import os
import subprocess
import sys
from functools import cache

import pytest

from kcli.cli.command_table import COMMANDS, module_of
from tests.cli.loopback import loopback_broker
from tests.fake_registry import fake_registry
from tests.limits import killed_after
from tests.real_kafka import Kafka

HEAVY = {
    *("hashlib", "hmac", "cryptography"),
    *("numpy", "ssl", "asyncio", "rich", "tabulate", "pydantic", "pyspark", "pyarrow", "cramjam", "lz4", "crc32c"),
    *(
        "hashlib",
        "hmac",
        "cryptography",
        "hypothesis",
        "pytest",
        "click",
        "logging",
        "email",
        "http",
        "multiprocessing",
        "concurrent",
        "unittest",
    ),
}
RUN_AND_LIST_MODULES = """
import sys
sys.argv[0] = "kcli"
from kcli.__main__ import main
status = main()
print(status, *sys.modules, file=sys.stderr)
"""


@cache
def modules_of_python() -> frozenset[str]:
    listed = subprocess.run(
        [sys.executable, "-c", "import sys; print(*sys.modules)"],
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    return frozenset(listed.stdout.split())


def imported_by(*argv: str, status: int = 0, stdin: str = "") -> set[str]:
    """Return the modules that `kcli argv...` has imported when it ends, except Python's own. Its output is a pipe."""
    command = [sys.executable, "-c", RUN_AND_LIST_MODULES, *argv]
    returning = {**os.environ, "KCLI_DEBUG": "1"}
    done = subprocess.run(command, capture_output=True, text=True, input=stdin, env=returning, timeout=120)
    ended, *modules = done.stderr.splitlines()[-1].split()
    assert int(ended) == status, done.stderr
    return set(modules) - modules_of_python()


def heavy(modules: set[str]) -> set[str]:
    return {name.partition(".")[0] for name in modules} & HEAVY


@pytest.mark.parametrize("flag", ["--version", "-V"])
def test_version_is_answered_before_anything_is_imported(flag: str) -> None:
    assert imported_by(flag) == {"kcli", "kcli.__main__"}


@pytest.mark.parametrize("line", ["--help", "topic --help", "consume --help"])
def test_help_of_a_group_imports_no_command(line: str) -> None:
    modules = imported_by(*line.split())
    assert "typer" in modules
    assert not heavy(modules)
    assert not modules & {module_of(path) for path in COMMANDS}
    for package in ("client", "protocol", "network", "consumer", "producer", "admin"):
        assert not [name for name in modules if name.startswith(f"kcli.{package}")]


@pytest.mark.parametrize("path", list(COMMANDS), ids=" ".join)
def test_help_of_a_command_imports_its_module_only(path: tuple[str, ...]) -> None:
    modules = imported_by(*path, "--help")
    assert not heavy(modules)
    assert modules & {module_of(other) for other in COMMANDS} == {module_of(path)}
    layers = ("kcli.client", "kcli.network", "kcli.protocol", "kcli.broker")
    assert not [name for name in modules if name.startswith(layers)]


def test_a_mistyped_command_imports_no_command() -> None:
    assert not imported_by("topic", "lst", status=2) & {module_of(path) for path in COMMANDS}


def test_topic_list_in_a_pipe_imports_only_what_it_needs() -> None:
    with loopback_broker(topics={"orders": 2}) as broker:
        modules = imported_by("topic", "list", "-b", broker.address)
    assert not heavy(modules)
    assert not [
        name for name in modules if name.startswith(("kcli.protocol.records", "kcli.consumer", "kcli.producer"))
    ]
    messages = {name.rpartition(".")[2] for name in modules if name.startswith("kcli.protocol.messages.")}
    assert messages == {"api_versions", "metadata"}
    assert not [name for name in modules if name.startswith(("kcli.cli.profile", "tomllib", "hashlib"))]


def test_schema_commands_import_neither_a_library_of_a_format_nor_the_client() -> None:
    with fake_registry() as registry:
        registry.register("s", '"string"')
        modules = imported_by("schema", "show", "s", "--schema-registry", registry.url)
    assert heavy(modules) <= {"http", "email", "ssl"}  # http.client imports the others
    assert not {name.partition(".")[0] for name in modules} & {"google", "grpc_tools", "jsonschema"}
    assert not [name for name in modules if name.startswith(("kcli.client.consumer", "kcli.protocol", "kcli.network"))]


@pytest.mark.parametrize("output", ["json", "jsonl", "csv", "tsv"])
def test_output_for_programs_imports_no_table(output: str) -> None:
    with loopback_broker(topics={"orders": 2}) as broker:
        assert not heavy(imported_by("topic", "list", "--output", output, "-b", broker.address))


def test_a_broker_imports_only_what_it_starts_with() -> None:
    """Handlers and messages are imported by the first request that needs them; nothing heavy is imported at all."""
    command = [
        sys.executable,
        "-c",
        RUN_AND_LIST_MODULES,
        "broker",
        "run",
        "--ephemeral",
        "--port",
        "0",
        "-t",
        "orders",
    ]
    environ = {**os.environ, "KCLI_DEBUG": "1"}
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environ) as broker:
        assert broker.stdout is not None
        with killed_after(broker, "the address and the end of the broker"):
            broker.stdout.readline()
            broker.terminate()
            ended, *modules = broker.communicate()[1].splitlines()[-1].split()
    assert ended == "0"
    found = set(modules) - modules_of_python()
    assert not heavy(found)
    assert not [name for name in found if name.startswith(("kcli.client", "kcli.admin", "kcli.consumer"))]
    handlers = {name for name in found if name.startswith("kcli.broker.handlers.")}
    assert handlers == {"kcli.broker.handlers.api_table"}
    assert "kcli.broker.group.group_coordinator" not in found


def test_a_tab_in_a_shell_imports_neither_the_parser_nor_a_command() -> None:
    """The names of a cluster are asked for in a child process, whose imports do not count."""
    modules = imported_by("__complete", "bash", stdin="kcli topic list --output j")
    assert not heavy(modules)
    assert {name for name in modules if name.startswith("kcli.")} == {
        "kcli.__main__",
        "kcli.cli",
        "kcli.cli.completion",
        "kcli.cli.completion.answer",
        "kcli.cli.completion.command_line",
    }
    more = imported_by("__complete", "bash", stdin="kcli consume -b 127.0.0.1:1 o")
    assert not heavy(more)
    assert "typer" not in modules | more


def test_an_unreachable_broker_imports_nothing_more() -> None:
    assert not heavy(imported_by("topic", "list", "-b", "127.0.0.1:1", "--timeout", "0.2", status=5))


def test_producing_and_consuming_import_only_what_they_use(our_kafka: Kafka) -> None:
    topic, address = our_kafka.new_topic(), our_kafka.bootstrap_servers
    produced = imported_by("produce", topic, "-b", address, stdin="a\nb\n")
    assert not heavy(produced) - {"crc32c"}
    assert "kcli.consumer" not in produced

    consumed = imported_by("consume", topic, "-o", "start", "-e", "-b", address)
    assert heavy(consumed) - {"crc32c"} == {"numpy"}
    assert "kcli.producer" not in consumed
    of_decoders = ("kcli.schemas", "kcli.cli.consume.decod", "kcli.cli.consume.expr", "kcli.cli.produce.encod")
    assert not [name for name in produced | consumed if name.startswith(of_decoders)]
