"""Checks of the arguments of public methods: one sentence for a wrong type, time or name. Ground.

`checked` decorates a public class. The annotations of its methods are the checks, so a type is declared once:
`partitions: Iterable[TopicPartition]` refuses "orders", a plain tuple and a single TopicPartition with a TypeError that
names the parameter, the type and an example. A parameter `..._ms: float` is a time to wait: a negative one and NaN are
a ValueError. `kcli.other_clients` has the names that other clients use, with what to write instead.

**Non-obvious**

- The checks of a method are compiled at its first call, because `inspect` and `ast` take milliseconds to import. A
  class that is not in the table of types is recognized by its name, so that nothing is imported for a check.
- An iterator is checked as a list, because it can be read only once.
- A method of another client is a descriptor that raises AttributeError, not a case of `__getattr__`: in a class with
  `__getattr__` each use of an attribute that exists takes twice as long.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection, Iterable, Mapping
from types import FunctionType
from typing import TYPE_CHECKING, Any, TypeVar, cast

from kcli import other_clients
from kcli.structs import TopicPartition
from kcli.text import closest_name, format_alternatives

if TYPE_CHECKING:
    import ast

C = TypeVar("C", bound=type[Any])


def checked(*, unchecked: Collection[str] = (), **aliases: str) -> Callable[[C], C]:
    """Return the decorator of a class whose public methods check their arguments, except those `unchecked`.

    A method that runs once per record stays unchecked, because a check takes as long as a short method. `aliases` are
    type aliases of the annotations, with their meaning: they are not imported for a check.
    """

    def decorate(cls: C) -> C:
        for name, member in list(vars(cls).items()):
            if name.startswith("_") or name in unchecked:
                continue
            if isinstance(member, classmethod):
                setattr(cls, name, classmethod(_checking(cls.__name__, member.__func__, aliases)))
            elif isinstance(member, FunctionType):
                setattr(cls, name, _checking(cls.__name__, member, aliases))
        add_names_elsewhere(cls)
        return cls

    return decorate


def add_names_elsewhere(cls: type) -> None:
    """Let the names that other clients have for methods of a class raise an AttributeError that says what to use."""
    absent = {name: text for name, text in other_clients.METHODS.get(cls.__name__, {}).items() if name not in vars(cls)}
    for name, advice in absent.items():
        setattr(cls, name, _NameElsewhere(cls.__name__, name, advice))

    def names_of(self: object) -> list[str]:
        return [name for name in object.__dir__(self) if name not in absent]

    cls.__dir__ = names_of  # type: ignore[method-assign, assignment]


def check_duration(name: str, value: object, *, owner: str = "") -> None:
    """Raise TypeError or ValueError unless a value is a number of milliseconds to wait, or None."""
    Parameter(owner, name, form_of("float | None")).check(value)


def _checking(owner: str, method: Callable[..., Any], aliases: Mapping[str, str]) -> Callable[..., Any]:
    parameters: _Parameters | None = None

    @functools.wraps(method)
    def call(self: Any, /, *given: Any, **named: Any) -> Any:
        nonlocal parameters
        if parameters is None:
            parameters = _Parameters(owner, method, aliases)
        if not named:
            return method(self, *parameters.checked(given))
        named = parameters.checked_by_name(named)
        return method(self, *parameters.checked(given), **named) if given else method(self, **named)

    return call


class _NameElsewhere:
    """The name of a method of another client. Its use raises AttributeError with the name that it has here."""

    def __init__(self, owner: str, name: str, advice: str) -> None:
        self.text = f"{owner} has no {name}; use {advice}"

    def __repr__(self) -> str:
        return f"<{self.text}>"

    def __get__(self, instance: object, owner: type | None = None) -> Any:
        raise AttributeError(self.text)


class _Parameters:
    """The parameters of one method, after `self`."""

    def __init__(self, owner: str, method: Callable[..., Any], aliases: Mapping[str, str]) -> None:
        self._call = f"{owner}.{method.__name__}"
        self._owner = owner
        self._positional: list[Parameter] = []
        self._by_name: dict[str, Parameter] = {}
        self._variadic: Parameter | None = None
        self._takes_any_name = False
        import inspect

        for declared in list(inspect.signature(method).parameters.values())[1:]:
            if declared.kind is declared.VAR_KEYWORD:
                self._takes_any_name = True
                continue
            parameter = Parameter(self._call, declared.name, form_of(str(declared.annotation), aliases))
            if declared.kind is declared.VAR_POSITIONAL:
                parameter.example = f"{method.__name__}(*{declared.name})"
                self._variadic = parameter
                continue
            self._by_name[declared.name] = parameter
            if declared.kind is not declared.KEYWORD_ONLY:
                self._positional.append(parameter)

    def checked(self, given: tuple[Any, ...]) -> Iterable[Any]:
        """Return the values of positional arguments. Too many of them are left to Python's own TypeError."""
        for parameter, value in zip(self._positional, given):  # noqa: B905 (`strict` takes longer than the check)
            if type(value) not in parameter.at_once or (parameter.is_duration and not value >= 0):
                break
        else:
            if self._variadic is None:
                return given
        checked = [parameter.check(value) for parameter, value in zip(self._positional, given, strict=False)]
        rest = given[len(checked) :]
        return [*checked, *(rest if self._variadic is None else map(self._variadic.check, rest))]

    def checked_by_name(self, named: dict[str, Any]) -> dict[str, Any]:
        """Return the values of arguments by name. Raise TypeError for a name that the method does not have."""
        for name, value in named.items():
            parameter = self._by_name.get(name)
            if parameter is None:
                if not self._takes_any_name:
                    raise TypeError(self._no_parameter(name))
            elif type(value) not in parameter.at_once or (parameter.is_duration and not value >= 0):
                named[name] = parameter.check(value)
        return named

    def _no_parameter(self, name: str) -> str:
        text = f"{self._call} has no parameter {name}"
        if (advice := other_clients.instead_of(name, self._by_name, self._owner)) is not None:
            return f"{text}; use {advice}"
        if (close := closest_name(name, self._by_name)) is not None:
            return f"{text}; did you mean {close}?"
        own = [*([f"*{self._variadic.name}"] if self._variadic else []), *self._by_name]
        return f"{text}; it has {format_alternatives(own) if own else 'none'}"


class Parameter:
    """A parameter of a call: its name and the form of its values. Types `at_once` need no further check."""

    def __init__(self, call: str, name: str, form: Form) -> None:
        self.call = call
        self.name = name
        self.form = form
        self.example = form.example
        self.is_duration = name.endswith("_ms") and "a number" in form.noun
        self.at_once = form.at_once - {type(None)} if self.is_duration else form.at_once

    def __repr__(self) -> str:
        return f"<Parameter {self.name} of {self.call}, {self.form.noun}>"

    def check(self, value: Any) -> Any:
        """Return the value, an iterator as a list. Raise TypeError for another type, ValueError for a negative time."""
        if self.form.is_iterable and hasattr(type(value), "__next__"):
            value = list(value)
        where = f"{self.call}: {self.name}" if self.call else self.name
        if not self.form.accepts(value):
            got = self.form.describe(value)
            raise TypeError(f"{where} must be {self._wanted()}; got {got}{self._conversion(got)}")
        if self.is_duration and value is not None and not value >= 0:
            raise ValueError(f"{where} must not be negative; got {value}")
        return value

    def _wanted(self) -> str:
        noun, example = self.form.noun, self.example
        if self.name.endswith("_ms"):
            noun = noun.replace("a number", "a number of milliseconds").replace("an int", "an int of milliseconds")
        if "topic" in self.name:
            example = example.replace('"name"', '"orders"')
        return f"{noun}, such as {example}" if example not in _OBVIOUS else noun

    def _conversion(self, got: str) -> str:
        for name, expression in _IN_MS.items() if self.name.endswith("_ms") else ():
            if name in got.split():
                return f", which {expression} converts"
        return ""


class Form:
    """The values that a parameter takes. `noun` and `example` are for people; `example` is an expression or empty."""

    noun = "anything"
    example = ""
    at_once: frozenset[type] = frozenset()
    is_iterable = False

    def accepts(self, value: Any) -> bool:
        return True

    def describe(self, value: Any) -> str:
        """Return what the caller gave, without the value itself, which may be secret."""
        return _described(value)


class _Scalar(Form):
    def __init__(self, noun: str, accepts: Callable[[Any], bool], *at_once: type, example: str = "") -> None:
        self.noun = noun
        self.example = example
        self.at_once = frozenset(at_once)
        self._accepts = accepts

    def accepts(self, value: Any) -> bool:
        return type(value) in self.at_once or self._accepts(value)

    def describe(self, value: Any) -> str:
        text = _described(value)
        return f"{text} of {' and '.join(map(_described, value))}" if isinstance(value, TopicPartition) else text


class _Instance(Form):
    """An object of a class, known by its name. The fields of a NamedTuple are checked, too."""

    def __init__(self, name: str) -> None:
        self.noun = _with_article(name)
        self.example = _EXAMPLES.get(name, "")
        self._name = name

    def accepts(self, value: Any) -> bool:
        return self._is_instance(value) and self._wrong_field(value) is None

    def describe(self, value: Any) -> str:
        wrong = self._wrong_field(value) if self._is_instance(value) else None
        return _described(value) if wrong is None else f"{_described(value)} with {wrong[1]} as {wrong[0]}"

    def _is_instance(self, value: Any) -> bool:
        return any(base.__name__ == self._name for base in type(value).__mro__) and not _package_of(value)

    def _wrong_field(self, value: Any) -> tuple[str, str] | None:
        for name, form in _fields_of(cast("Any", type(value))):
            field = getattr(value, name)
            if not form.accepts(field):
                return name, form.describe(field)
        return None


@functools.cache
def _fields_of(struct: Any) -> list[tuple[str, Form]]:
    """Return the fields of a NamedTuple whose types are those of the table."""
    annotations = struct.__annotations__ if hasattr(struct, "_fields") else {}
    texts = {name: _text_of(annotation) for name, annotation in annotations.items()}
    return [(name, form_of(text)) for name, text in texts.items() if KNOWN_NAMES.issuperset(_names(text))]


def _text_of(annotation: Any) -> str:
    if isinstance(annotation, type):
        return annotation.__name__
    return str(getattr(annotation, "__forward_arg__", annotation))


def _names(annotation: str) -> set[str]:
    import ast

    return {node.id for node in ast.walk(ast.parse(annotation)) if isinstance(node, ast.Name)}


class _Choice(Form):
    def __init__(self, choices: tuple[Any, ...]) -> None:
        self.noun = format_alternatives(f'"{choice}"' for choice in choices)
        self._choices = choices

    def accepts(self, value: Any) -> bool:
        return isinstance(value, str) and value in self._choices

    def describe(self, value: Any) -> str:
        return repr(value) if isinstance(value, str) else _described(value)


class _Either(Form):
    def __init__(self, forms: list[Form]) -> None:
        self._forms = forms
        nouns = [form.noun for form in forms]
        is_nested = any(" or " in noun or " to " in noun for noun in nouns)
        self.noun = ", or ".join(nouns) if is_nested else format_alternatives(nouns)
        self.example = " or ".join(form.example for form in forms if form.example)
        self.at_once = frozenset().union(*(form.at_once for form in forms))
        self.is_iterable = any(form.is_iterable for form in forms)

    def accepts(self, value: Any) -> bool:
        return any(form.accepts(value) for form in self._forms)

    def describe(self, value: Any) -> str:
        texts = (form.describe(value) for form in self._forms)
        return max(texts, key=len)  # a form that takes the container names its wrong element


class _Items(Form):
    is_iterable = True

    def __init__(self, element: Form) -> None:
        self.noun = f"a list of {element.noun.removeprefix('a ').removeprefix('an ')}"
        self.example = f"[{element.example}]" if element.example else ""
        self._element = element

    def accepts(self, value: Any) -> bool:
        return _is_iterable(value) and all(self._element.accepts(element) for element in value)

    def describe(self, value: Any) -> str:
        if _is_iterable(value):
            for element in value:
                if not self._element.accepts(element):
                    return f"{_described(value)} with {self._element.describe(element)}"
        return _described(value)


class _Pairs(Form):
    def __init__(self, key: Form, value: Form) -> None:
        self.noun = f"a dict from {key.noun} to {value.noun}"
        self.example = f"{{{key.example}: {value.example}}}" if key.example and value.example else ""
        self._key, self._value = key, value

    def accepts(self, value: Any) -> bool:
        return isinstance(value, Mapping) and all(
            self._key.accepts(key) and self._value.accepts(of_key) for key, of_key in value.items()
        )

    def describe(self, value: Any) -> str:
        for key, of_key in value.items() if isinstance(value, Mapping) else ():
            if not self._key.accepts(key):
                return f"{_described(value)} with {self._key.describe(key)} as a key"
            if not self._value.accepts(of_key):
                return f"{_described(value)} with {self._value.describe(of_key)} as a value"
        return _described(value)


def _is_iterable(value: object) -> bool:
    """Return whether a value is a list of things: neither text nor a single struct, which have elements too."""
    if type(value) is list:
        return True
    return isinstance(value, Iterable) and not isinstance(value, str | bytes) and not hasattr(type(value), "_fields")


def _is_int(value: object) -> bool:
    return hasattr(type(value), "__index__") and not isinstance(value, bool)


def _is_number(value: object) -> bool:
    return hasattr(type(value), "__float__") and not isinstance(value, bool)


def _is_partition(value: object) -> bool:
    return isinstance(value, TopicPartition) and type(value[0]) is str and (type(value[1]) is int or _is_int(value[1]))


_ANYTHING = Form()
_OBVIOUS = ("", '"name"', "0")
_IN_MS = {"datetime": "int(datetime.timestamp() * 1000)", "timedelta": "timedelta / timedelta(milliseconds=1)"}
_ITEMS = {"Collection", "Iterable", "Sequence", "Set", "frozenset", "list", "set"}
_PAIRS = {"Mapping", "dict"}
_EXAMPLES = {
    "GroupMetadata": "consumer.group_metadata()",
    "NewTopic": 'NewTopic("orders", partitions=3)',
    "OffsetAndMetadata": "OffsetAndMetadata(100)",
    "Path": 'Path("snapshots")',
    "Place": "kcli.LOG_START",
    "Wanted": "Wanted(partitions=6)",
}
_SCALARS: dict[str, Form] = {
    "Any": _ANYTHING,
    "object": _ANYTHING,
    "None": _Scalar("None", lambda value: value is None, type(None)),
    "TopicPartition": _Scalar("a TopicPartition", _is_partition, example='TopicPartition("orders", 0)'),
    "bool": _Scalar("True or False", lambda value: type(value).__name__ == "bool", bool),
    "float": _Scalar("a number", _is_number, int, float),
    "int": _Scalar("an int", _is_int, int, example="0"),
    "str": _Scalar("a str", lambda value: isinstance(value, str), str, example='"name"'),
    "Callable": _Scalar("a function", callable),
}

#: The names that an annotation may have without an import.
KNOWN_NAMES = {*_ITEMS, *_PAIRS, *_SCALARS, "Literal"}


def form_of(annotation: str, aliases: Mapping[str, str] = {}) -> Form:
    """Return the form of the values of an annotation."""
    import ast

    return _form(ast.parse(annotation, mode="eval").body, aliases)


def _form(node: ast.expr, aliases: Mapping[str, str]) -> Form:
    import ast

    if isinstance(node, ast.BinOp):
        return _Either([_form(part, aliases) for part in _alternatives(node)])
    if isinstance(node, ast.Constant):
        return _SCALARS["None"] if node.value is None else form_of(str(node.value), aliases)
    if isinstance(node, ast.Subscript):
        name = ast.unparse(node.value)
        parts = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
        if name in _ITEMS:
            return _Items(_form(parts[0], aliases))
        if name in _PAIRS:
            return _Pairs(_form(parts[0], aliases), _form(parts[1], aliases))
        if name == "Literal":
            return _Choice(tuple(ast.literal_eval(part) for part in parts))
    else:
        name = ast.unparse(node)
    if name in aliases:
        return form_of(aliases[name], aliases)
    return _SCALARS.get(name) or _Instance(name)


def _alternatives(node: ast.expr) -> list[ast.expr]:
    import ast

    if isinstance(node, ast.BinOp):
        return [*_alternatives(node.left), *_alternatives(node.right)]
    return [node]


def _described(value: object) -> str:
    if value is None:
        return "None"
    package = _package_of(value)
    return _with_article(type(value).__name__) + (f" of {package}" if package else "")


def _package_of(value: object) -> str:
    """Return the package of another client that the class of a value comes from; "" for all other classes.

    Classes of that name exist here, too, with other fields: `kafka.OffsetAndMetadata`.
    """
    root = type(value).__module__.partition(".")[0]
    return other_clients.PACKAGES.get(root, "")


def _with_article(name: str) -> str:
    return f"{'an' if name[:1].lower() in 'aeiou' else 'a'} {name}"
