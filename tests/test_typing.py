"""Type checkers on the library as its users call it: the examples of the documents, and calls that they must reject.

Each of mypy and pyright runs once, in strict mode, over a folder with a module for each example.
"""

from __future__ import annotations

import ast
import builtins
import doctest
import importlib
import inspect
import json
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import kcli
from tests.foreign import node_with
from tests.needs import needs_package
from tests.snippets import PAGES, ROOT, snippets
from tests.test_public_api import ALSO_PUBLIC

PYRIGHT = "pyright@1.1.414"
#: Names that an example uses and the text around it defines.
GIVEN = {
    "bootstrap": "import typing\nbootstrap: str = typing.cast(typing.Any, None)",
    "frame": "import typing, pyspark.sql\nframe: pyspark.sql.DataFrame = typing.cast(typing.Any, None)",
    "registry_url": 'registry_url = "http://localhost:8081"',
    "spark": "import typing, pyspark.sql\nspark: pyspark.sql.SparkSession = typing.cast(typing.Any, None)",
}
UNTYPED = ("pandas", "polars", "pyarrow", "pyspark")  # packages without types: what they return is unknown
UNKNOWN = "reportUnknownVariableType reportUnknownMemberType reportUnknownArgumentType reportMissingImports"
#: Each line with a comment is wrong. A checker must report these lines and no other one.
CALLS = """
import os

from kcli import Admin, AsyncAdmin, AsyncConsumer, AsyncProducer, Consumer, Producer
from kcli import ConsumerSettings, NewTopic, TopicPartition, Wanted

consumer = Consumer("orders", bootstrap_servers="a:1,b:1", group_id=os.environ.get("GROUP"), max_poll_records="5")
Consumer("orders", bootstrap_servers=["a:1", "b:1"], enable_auto_commit=False, value_deserializer=bytes.decode)
Consumer("orders", bootstrap_server="x")  # a misspelt setting
Consumer("orders", **{"bootstrap_server": "x"})  # a misspelt setting in a dict
Consumer("orders", acks="all")  # a setting of another client
Consumer("orders", enable_auto_commit=1)  # a number for a boolean
Consumer("orders", fetch_min_bytes=1.5)  # a fraction for a whole number
Consumer("orders", value_deserializer="org.apache.kafka.common.serialization.StringDeserializer")  # no callable
Consumer(["orders"])  # a list of topics
consumer.seek("orders", 5)  # no partition
consumer.seek(TopicPartition("orders", 0), "5")  # an offset as text
consumer.assign([("orders", 0)])  # a plain tuple
settings: ConsumerSettings = {"group_id": "billing", "check_crcs": False}
Consumer("orders", **settings)
wrong: ConsumerSettings = {"group": "billing"}  # a misspelt key

producer = Producer(bootstrap_servers="a:1", linger_ms=10, acks="all", sasl_password=os.environ.get("PASSWORD"))
Producer(linger_ms=1.5)  # a fraction
Producer(sasl_pasword="secret")  # a misspelt setting
producer.send("orders", b"1", headers={"a": b"1"})  # a dict of headers
producer.send(b"orders", b"1")  # a topic as bytes

AsyncProducer(linger_ms=10)
AsyncProducer(linger_ms=1.5)  # a fraction

admin = Admin("a:1", client_id="tool")
Admin(bootstrap_servers=["a:1"])
Admin("a:1", group_id="billing")  # a setting of another client
Admin("a:1", request_timeout_ms=[])  # a list for a number
AsyncAdmin("a:1", client_id="tool")
AsyncAdmin("a:1", group_id="billing")  # a setting of another client
AsyncConsumer("orders", group_id="billing")
AsyncConsumer("orders", group="billing")  # a misspelt setting
admin.describe_configs("1", kind="broker")["1"]["log.retention.ms"].value
admin.describe_configs("1", kind="brokers")  # a kind that there is not
admin.create_topics([NewTopic("orders", 3)])
admin.create_topics(["orders"])  # a name for a topic
admin.plan_alterations({"orders": Wanted(partitions=6)})
admin.plan_alterations({"orders": {"retention.ms": "1"}})  # a dict for its changes
admin.describe_topics("orders")["orders"].partitions
admin.describe_topics("orders")[0]  # a number for a name
"""


def blocks_of_pages() -> Iterator[tuple[str, str]]:
    """Yield a module name and the text of each Python block in the pages for people."""
    for page in PAGES:
        for snippet in snippets(page):
            yield f"{page.stem.lower()}_line_{snippet.line}", snippet.source


def programs_of_migrations() -> Iterator[tuple[str, str]]:
    """Yield the modules with programs of other clients."""
    for path in (ROOT / "tests" / "interop" / "migration").glob("from_*.py"):
        yield f"migration_{path.stem}", path.read_text("utf-8")


def examples_of_docstrings() -> Iterator[tuple[str, str]]:
    """Yield a module name and the examples of each docstring of a public class and its methods."""
    for path in [*(f"{home}.{name}" for name, home in kcli._HOME.items()), *ALSO_PUBLIC]:
        module, _, name = path.rpartition(".")
        value = getattr(importlib.import_module(module), name)
        if inspect.isclass(value):
            for found in doctest.DocTestFinder().find(value, name, module=importlib.import_module(module)):
                if found.examples:
                    yield f"docstring_{found.name.replace('.', '_')}", "".join(part.source for part in found.examples)


def with_given_names(text: str) -> str:
    """Return a module that defines the names that the text around the example defines."""
    nodes = list(ast.walk(ast.parse(text)))
    defined = {node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    defined |= {node.arg for node in nodes if isinstance(node, ast.arg)}
    defined |= {
        alias.asname or alias.name for node in nodes if isinstance(node, ast.ImportFrom) for alias in node.names
    }
    defined |= {node.name for node in nodes if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)}
    defined |= {node.arg for node in nodes if isinstance(node, ast.arg)}
    used = {node.id for node in nodes if isinstance(node, ast.Name)} - defined - {*dir(builtins)}
    given = [GIVEN[name] for name in sorted(used & GIVEN.keys())]
    if any(package in f"{given}{text}" for package in UNTYPED):
        given.insert(0, f"# pyright: {', '.join(f'{rule}=false' for rule in UNKNOWN.split())}")
    return "\n".join([*given, text])


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder with the modules to check, and the configurations of both checkers."""
    folder = tmp_path_factory.mktemp("typed")
    for name, text in [*blocks_of_pages(), *examples_of_docstrings(), *programs_of_migrations()]:
        (folder / f"{name}.py").write_text(with_given_names(text))
    (folder / "calls.py").write_text(CALLS)
    untyped = ",".join(f"{package}.*" for package in UNTYPED)
    sections = f"[mypy]\nstrict = True\nmypy_path = {ROOT}\nfollow_imports = silent\n"
    (folder / "mypy.ini").write_text(f"{sections}[mypy-{untyped}]\nignore_missing_imports = True\n")
    accepted = dict.fromkeys(["reportMissingTypeStubs", "reportUnusedExpression"], False)
    configuration = {"typeCheckingMode": "strict", "extraPaths": [str(ROOT)], **accepted}
    (folder / "pyrightconfig.json").write_text(json.dumps(configuration))
    return folder


@pytest.fixture(scope="module", params=["mypy", "pyright"])
def reports(request: pytest.FixtureRequest, folder: Path) -> list[tuple[str, int, str]]:
    """The file, the line and the text of each error that a checker reports."""
    return CHECKERS[request.param](folder)


def mypy_reports(folder: Path) -> list[tuple[str, int, str]]:
    needs_package("mypy", "test")
    command = [
        sys.executable,
        "-m",
        "mypy",
        "--config-file",
        "mypy.ini",
        "--cache-dir",
        str(ROOT / ".mypy_cache" / "of_users"),
        ".",
    ]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=600)
    assert done.returncode in (0, 1), done.stdout + done.stderr
    found = re.findall(r"^(\S+\.py):(\d+): error: (.*)$", done.stdout, re.MULTILINE)
    return [(name, int(line), text) for name, line, text in found]


def pyright_reports(folder: Path) -> list[tuple[str, int, str]]:
    program = node_with(PYRIGHT) / "pyright" / "index.js"
    command = ["node", str(program), "--outputjson", "--pythonpath", sys.executable]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=600)
    assert done.returncode in (0, 1), done.stdout + done.stderr
    found: list[dict[str, Any]] = json.loads(done.stdout)["generalDiagnostics"]
    errors = [report for report in found if report["severity"] == "error"]
    return [
        (Path(error["file"]).name, error["range"]["start"]["line"] + 1, f"{error['message']} ({error.get('rule')})")
        for error in errors
    ]


CHECKERS: dict[str, Callable[[Path], list[tuple[str, int, str]]]] = {"mypy": mypy_reports, "pyright": pyright_reports}


@pytest.mark.slow
def test_the_examples_of_the_documents_are_well_typed(reports: list[tuple[str, int, str]], folder: Path) -> None:
    assert [f"{name}:{line}: {text}" for name, line, text in reports if name != "calls.py"] == []
    names = {path.stem for path in folder.glob("*.py")}
    assert {"docstring_Admin", "docstring_Consumer", "docstring_Producer"} <= names
    assert len([name for name in names if name.startswith(("guide_", "library_"))]) >= 20


@pytest.mark.slow
def test_wrong_calls_are_reported_and_right_ones_are_not(reports: list[tuple[str, int, str]]) -> None:
    wrong = {number for number, line in enumerate(CALLS.splitlines(), 1) if "  # " in line}
    reported = {line: text for name, line, text in reports if name == "calls.py"}
    assert reported.keys() - wrong == set(), reported
    assert wrong - reported.keys() == set()
