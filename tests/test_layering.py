"""The layers of the package: each module imports only what this table allows, by the syntax trees of all modules."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent / "kcli"
GROUND = {
    "",
    "errors",
    "error_codes",
    "structs",
    "clock",
    "conditions",
    "denials",
    "log_place",
    "logs",
    "patterns",
    "metric",
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
    "broker": {"protocol", "network", "security", "assignors"},
    "spark": {"protocol", "security", "client", "consumer", "producer", "admin", "schemas"},
    "cli": {"protocol", "security", "client", "assignors", "consumer", "producer", "admin", "schemas", "spark"},
}
BROKERS_OWN_COMMANDS = {"cli/demo/own_broker.py", "cli/docs/completion_table.py"}
MODULES = sorted(path.relative_to(ROOT).as_posix() for path in ROOT.rglob("*.py"))


def imported(source: str, module: str) -> Iterator[str]:
    """Yield every package of kcli that this module imports, anywhere in it; "" is kcli itself."""
    package = ["kcli", *module.split("/")[:-1]]
    for node in ast.walk(ast.parse(source)):
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


@pytest.mark.parametrize("module", MODULES)
def test_module_imports_only_what_the_table_allows(module: str) -> None:
    found = set(imported((ROOT / module).read_text(), module))
    package = module.split("/")[0] if "/" in module else ""
    if module == "__main__.py":
        allowed = {"", "cli"}
    elif package == "":
        allowed = GROUND
    else:
        allowed = GROUND | {package} | MAY_IMPORT[package]
    if module in BROKERS_OWN_COMMANDS or module.startswith("cli/broker/"):
        allowed |= {"broker"}
    assert found <= allowed, (
        f"kcli/{module} must not import {sorted(found - allowed)}; a command that starts a broker may, if it is in "
        "BROKERS_OWN_COMMANDS"
    )


def test_imports_inside_functions_and_relative_imports_are_found() -> None:
    source = "def f():\n    import kcli.network.selector\n    from kcli import broker\nfrom ..client import routing"
    assert set(imported(source, "admin/topics.py")) == {"network", "broker", "client"}
