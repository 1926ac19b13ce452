"""Rule: a program can import from `kcli` each class that the public methods take, return, or name as an error.

The annotations are read from the source text, because most of their names are imported for type checkers only.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import re
from collections.abc import Iterable, Iterator
from functools import cache
from typing import Any

import pytest

import kcli
from kcli.errors import KcliError

CLIENTS = sorted(name for name in kcli._HOME if name.endswith(("Admin", "Consumer", "Producer")))
INTERNAL = {
    "ConsumerNetworkClient": "a client that kcli's own commands and tests share",
    "SendCallables": "the callables of a producer that kcli's own commands and tests make",
    "Membership": "the state of a member, for kcli's own commands and tests",
}


class Module:
    """The names of a module's source text: where they come from, and what its own ones mean."""

    def __init__(self, name: str) -> None:
        self.tree = ast.parse(inspect.getsource(importlib.import_module(name)))
        imports = [node for node in ast.walk(self.tree) if isinstance(node, ast.ImportFrom)]
        self.origins = {alias.name: str(node.module) for node in imports for alias in node.names}
        self.aliases: dict[str, ast.expr] = {}
        for node in self.tree.body:
            if isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None:
                target = node.targets[0] if isinstance(node, ast.Assign) else node.target
                self.aliases[ast.unparse(target)] = node.value
        self.classes = {node.name: node for node in self.tree.body if isinstance(node, ast.ClassDef)}


module_named = cache(Module)


def classes_in(annotation: ast.expr, module: str) -> Iterator[str]:
    """Yield the names of the classes of kcli in an annotation of this module. Aliases are replaced by their meaning."""
    for node in ast.walk(annotation):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value.isprintable():
            yield from classes_in(ast.parse(node.value, mode="eval").body, module)
        elif isinstance(node, ast.Name):
            origin = module_named(module).origins.get(node.id, module)
            if not origin.startswith("kcli."):
                continue
            if node.id in module_named(origin).classes:
                yield node.id
            elif (meaning := module_named(origin).aliases.get(node.id)) is not None and not is_type_variable(meaning):
                yield from classes_in(meaning, origin)


def is_type_variable(meaning: ast.expr) -> bool:
    return isinstance(meaning, ast.Call)


def annotations_of(function: ast.FunctionDef | ast.AsyncFunctionDef) -> Iterator[ast.expr]:
    given = function.args
    for argument in [*given.posonlyargs, *given.args, *given.kwonlyargs, given.vararg, given.kwarg]:
        if argument is not None and argument.annotation is not None:
            yield argument.annotation
    if function.returns is not None:
        yield function.returns


def methods_of(cls: Any) -> Iterator[tuple[str, ast.FunctionDef | ast.AsyncFunctionDef]]:
    """Yield the constructor, the public methods and the properties of a class, each with its module."""
    for base in cls.__mro__:
        if base.__module__.startswith("kcli."):
            for node in module_named(base.__module__).classes[base.__name__].body:
                is_function = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
                if is_function and (not node.name.startswith("_") or (node.name == "__init__" and base is cls)):
                    yield base.__module__, node


def public_classes_of(cls: Any) -> dict[str, list[str]]:
    """Return the classes of kcli in the annotations of these methods, each with the methods."""
    found: dict[str, list[str]] = {}
    for module, method in methods_of(cls):
        for annotation in annotations_of(method):
            for name in classes_in(annotation, module):
                found.setdefault(name, []).append(method.name)
    return found


def errors_named_by(docstrings: Iterable[str]) -> set[str]:
    """Return the names of kcli's errors in these docstrings."""
    words = {word for text in docstrings for word in re.findall(r"[A-Z]\w+", text)}
    return words & {cls.__name__ for cls in errors_below(KcliError)}


def errors_below(cls: type[KcliError]) -> Iterator[type[KcliError]]:
    for below in cls.__subclasses__():
        if below.__module__.startswith(("kcli.errors", "kcli.admin", "kcli.client", "kcli.consumer", "kcli.producer")):
            yield below
            yield from errors_below(below)


@pytest.mark.parametrize("client", CLIENTS)
def test_each_class_that_a_public_method_takes_or_returns_is_public(client: str) -> None:
    found = public_classes_of(getattr(kcli, client))
    assert {name: methods for name, methods in found.items() if name not in {*kcli._HOME, *INTERNAL}} == {}


def test_the_rule_reads_imported_names_aliases_and_texts() -> None:
    found = public_classes_of(kcli.Admin) | public_classes_of(kcli.Consumer) | public_classes_of(kcli.Producer)
    assert len(found) > 40
    assert {"FromOffsets", "RecordColumns", "Outcome", "ProducerRecord"} <= found.keys()  # only in aliases
    assert INTERNAL.keys() <= found.keys()


@pytest.mark.parametrize("client", CLIENTS)
def test_each_error_that_a_docstring_names_is_public(client: str) -> None:
    cls = getattr(kcli, client)
    for name in kcli._HOME:
        getattr(kcli, name)  # imports the modules that define errors
    texts = [ast.get_docstring(method) or "" for _, method in methods_of(cls)]
    named = errors_named_by([cls.__doc__ or "", *texts])
    assert named - kcli._HOME.keys() == set()
    assert named or client.startswith("Async")
