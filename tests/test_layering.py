"""Rules for the code, by the syntax trees of all modules: a table of allowed imports, and names of loop variables."""

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
NAMELESS_LOOPS = {
    f"broker{room}" for room in ("", "/cluster", "/cluster/decide", "/controller", "/node", "/security", "/testing")
}
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


@pytest.mark.parametrize("module", [name for name in MODULES if name.rpartition("/")[0] not in NAMELESS_LOOPS])
def test_loop_variables_name_the_thing(module: str) -> None:
    """`for row in rows`, never `for it in rows`. Some folders of the broker still have such loops."""
    loops = [n for n in ast.walk(ast.parse((ROOT / module).read_text())) if isinstance(n, ast.For | ast.comprehension)]
    names = [name for loop in loops for name in ast.walk(loop.target) if isinstance(name, ast.Name)]
    assert [f"kcli/{module}:{name.lineno}" for name in names if name.id in ("it", "one")] == []
