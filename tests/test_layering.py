"""Rules for the code, by the syntax trees of all modules: a table of allowed imports, and names of loop variables."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent / "kcli"
GROUND = {
    "",
    "arguments",
    "errors",
    "error_codes",
    "forks",
    "structs",
    "clock",
    "conditions",
    "denials",
    "host_names",
    "log_place",
    "logs",
    "patterns",
    "metric",
    "other_clients",
    "private_files",
    "secret",
    "settings",
    "text",
    "visible",
    "whole_files",
}
MAY_IMPORT = {
    "protocol": set(),
    "security": set(),
    "network": {"protocol"},
    "client": {"protocol", "network", "security"},
    "assignors": {"protocol"},
    "schemas": {"security"},
    "consumer": {"protocol", "client", "assignors"},
    "producer": {"protocol", "client"},
    "admin": {"protocol", "client", "assignors"},
    "aio": {"protocol", "client", "consumer", "producer", "admin"},
    "broker": {"protocol", "network", "security", "assignors"},
    "spark": {"protocol", "security", "client", "consumer", "producer", "admin", "schemas"},
    "cli": {"protocol", "security", "client", "assignors", "consumer", "producer", "admin", "schemas", "spark"},
}
BROKERS_OWN_COMMANDS = {"cli/demo/own_broker.py", "cli/docs/completion_table.py"}


@pytest.fixture(scope="module")
def trees() -> list[tuple[str, ast.Module]]:
    """The path below kcli/ and the syntax tree of each module."""
    return [(path.relative_to(ROOT).as_posix(), ast.parse(path.read_text())) for path in sorted(ROOT.rglob("*.py"))]


def imported(tree: ast.Module, module: str) -> Iterator[str]:
    """Yield every package of kcli that this module imports, anywhere in it; "" is kcli itself."""
    package = ["kcli", *module.split("/")[:-1]]
    for node in ast.walk(tree):
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = (
                ".".join([*package[: len(package) - node.level + 1], node.module or ""]) if node.level else node.module
            )
            base = (base or "").rstrip(".")
            names = [f"{base}.{alias.name}" for alias in node.names] if base == "kcli" else [base]
        for name in names:
            if name == "kcli" or name.startswith("kcli."):
                yield f"{name}.".split(".")[1].replace("__version__", "")


def allowed_imports(module: str) -> set[str]:
    package = module.split("/")[0] if "/" in module else ""
    if module == "__main__.py":
        allowed = {"", "cli"}
    elif package == "":
        allowed = GROUND
    else:
        allowed = GROUND | {package} | MAY_IMPORT[package]
    if module in BROKERS_OWN_COMMANDS or module.startswith("cli/broker/"):
        allowed = allowed | {"broker"}
    return allowed


def test_modules_import_only_what_the_table_allows(trees: list[tuple[str, ast.Module]]) -> None:
    """A command that starts a broker may import it, if it is in BROKERS_OWN_COMMANDS."""
    found = {module: set(imported(tree, module)) - allowed_imports(module) for module, tree in trees}
    assert {f"kcli/{module}": sorted(packages) for module, packages in found.items() if packages} == {}


def test_imports_inside_functions_and_relative_imports_are_found() -> None:
    source = "def f():\n    import kcli.network.selector\n    from kcli import broker\nfrom ..client import routing"
    assert set(imported(ast.parse(source), "admin/topics.py")) == {"network", "broker", "client"}


def test_loop_variables_name_the_thing(trees: list[tuple[str, ast.Module]]) -> None:
    """`for row in rows`, never `for it in rows`."""
    assert [
        f"kcli/{module}:{name.lineno}"
        for module, tree in trees
        for loop in ast.walk(tree)
        if isinstance(loop, ast.For | ast.comprehension)
        for name in ast.walk(loop.target)
        if isinstance(name, ast.Name) and name.id in ("it", "one")
    ] == []
