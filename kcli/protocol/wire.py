"""The vocabulary of message declarations: an annotation is a wire type, `since` names the versions with the field.

    from kcli.protocol.wire import *

    @message(key=12, versions="0-4", flexible="4+")
    class HeartbeatRequest(Request["HeartbeatResponse"]):
        group_id: String = ""
        generation_id: Int32 = 0
        member_id: String = ""
        group_instance_id: NullableString = since(3, default=None)

Where Kafka gives one name to two structs of an API (TopicData in the request and in the response of DescribeQuorum),
declare each struct inside its message: `class DescribeQuorumResponse: @struct class TopicData: ...`.

A class is declared once for all versions; `compiler` compiles it per version on first use. A declaration is cheap
(nothing is generated or resolved at import), because a command-line tool imports these modules at every start.
Terms and rules (flexible versions, tagged and ignorable fields): KIP-482 and Kafka's message README.
"""

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Generic, TypeVar

from kcli.errors import BrokerError
from kcli.protocol.primitives import Buffer
from kcli.structs import ANONYMOUS

if TYPE_CHECKING:
    from uuid import UUID

    from typing_extensions import dataclass_transform
else:
    UUID = object  # typing would compile a quoted name, which takes 4 ms, and importing uuid takes 2 ms

    def dataclass_transform(**_: Any) -> Callable[[Any], Any]:
        """For the type checker only."""
        return lambda decorator: decorator


#: The vocabulary of declarations. The modules of `kcli.protocol.messages` import all of it.
__all__ = [
    "Array",
    "Bool",
    "Bytes",
    "Float64",
    "Int8",
    "Int16",
    "Int32",
    "Int64",
    "Message",
    "Nullable",
    "NullableArray",
    "NullableBytes",
    "NullableRecords",
    "NullableString",
    "Records",
    "Request",
    "String",
    "UInt16",
    "UInt32",
    "Uuid",
    "message",
    "since",
    "struct",
    "zero_uuid",
]

T = TypeVar("T")
R = TypeVar("R")


class Wire:
    """A wire type: Kafka's name of it, and its `struct` code if the size is fixed."""

    def __init__(self, name: str, code: str = "", nullable: bool = False) -> None:
        self.name = name
        self.code = code
        self.nullable = nullable


Bool = Annotated[bool, Wire("bool", "?")]
Int8 = Annotated[int, Wire("int8", "b")]
Int16 = Annotated[int, Wire("int16", "h")]
UInt16 = Annotated[int, Wire("uint16", "H")]
Int32 = Annotated[int, Wire("int32", "i")]
UInt32 = Annotated[int, Wire("uint32", "I")]
Int64 = Annotated[int, Wire("int64", "q")]
Float64 = Annotated[float, Wire("float64", "d")]
Uuid = Annotated[UUID, Wire("uuid")]
String = Annotated[str, Wire("string")]
NullableString = Annotated[str | None, Wire("string", nullable=True)]
Bytes = Annotated[bytes, Wire("bytes")]
NullableBytes = Annotated[bytes | None, Wire("bytes", nullable=True)]
Records = Annotated[Buffer, Wire("records")]  # decoded as a memoryview over the frame
NullableRecords = Annotated[Buffer | None, Wire("records", nullable=True)]
Array = Annotated[list[T], Wire("array")]
NullableArray = Annotated[list[T] | None, Wire("array", nullable=True)]
Nullable = Annotated[T | None, Wire("struct", nullable=True)]  # of a struct


class Since:
    """The arguments of `since`; by default, of a field that is in every version."""

    def __init__(
        self,
        make_default: Callable[[], Any],
        first: int = 0,
        until: int = sys.maxsize,
        nullable_from: int = 0,
        tag: int | None = None,
        ignorable: bool = False,
    ) -> None:
        self.make_default = make_default
        self.first = first
        self.until = until
        self.nullable_from = nullable_from
        self.tag = tag
        self.ignorable = ignorable


def since(
    first: int = 0,
    *,
    until: int = sys.maxsize,
    default: Any = None,
    default_factory: Callable[[], Any] | None = None,
    nullable_from: int = 0,
    tag: int | None = None,
    ignorable: bool = False,
) -> Any:
    """Declare a field that is not in every version.

    Versions `first` to `until` have it. A nullable type may be null from version `nullable_from` on. With a `tag` the
    field is sent in the tagged section if it differs from the default. A value that a version cannot carry is an error,
    unless the field is `ignorable`: then it is omitted.
    """
    return Since(default_factory or _default_maker(default), first, until, nullable_from, tag, ignorable)


def zero_uuid() -> "UUID":
    """Return the default of Uuid fields: no id."""
    import uuid

    return uuid.UUID(int=0)


class Message:
    """A request or response body. Its annotations are its fields; all have defaults; it compares by value."""

    API_KEY: ClassVar[int]
    VERSIONS: ClassVar[tuple[int, int]]
    FLEXIBLE: ClassVar[int | None]
    #: That of the connection of a received response, for the sentences of refusals; None: only the brokers know it.
    principal: ClassVar[str | None] = ANONYMOUS

    def broker_error(
        self, code: int, message: str | None = None, *, request: str | None = None, **evidence: Any
    ) -> BrokerError:
        """Return the error for an error code in this response; `request`: another API than that of the response."""
        request = request or type(self).__name__.removesuffix("Response")
        return BrokerError(code, message, request=request, principal=self.principal, **evidence)


class _ResponseClass:
    """The response class of a request: `HeartbeatRequest.RESPONSE` is HeartbeatResponse of the same module."""

    def __get__(self, _instance: object, owner: type) -> type:
        found: type = getattr(sys.modules[owner.__module__], owner.__name__.replace("Request", "Response"))
        return found


if TYPE_CHECKING:

    class Request(Message, Generic[R]):
        """A message whose response is an R."""

        RESPONSE: ClassVar[type[Any]]
else:

    class Request(Message):
        """A message whose response is the class named in brackets."""

        RESPONSE = _ResponseClass()

        def __class_getitem__(cls, _response: str) -> type:
            return cls


@dataclass_transform(kw_only_default=True, field_specifiers=(since,))
def message(*, key: int, versions: str, flexible: str | None) -> Callable[[type[T]], type[T]]:
    """Declare a request or response: its API key, versions ("0-4"), and the first flexible one ("4+" or None)."""
    first, _, last = versions.partition("-")

    def declare(cls: type[T]) -> type[T]:
        cls.API_KEY = key  # type: ignore[attr-defined]
        cls.VERSIONS = (int(first), int(last or first))  # type: ignore[attr-defined]
        cls.FLEXIBLE = None if flexible is None else int(flexible.rstrip("+"))  # type: ignore[attr-defined]
        return struct(cls)

    return declare


@dataclass_transform(kw_only_default=True, field_specifiers=(since,))
def struct(cls: type[T]) -> type[T]:
    """Declare a part of a message: keyword construction, equality by value, a repr without defaults and secrets."""
    cls.__init__ = _init  # type: ignore[method-assign]
    cls.__eq__ = _equal  # type: ignore[method-assign]
    cls.__hash__ = None  # type: ignore[assignment]
    cls.__repr__ = _show  # type: ignore[method-assign]
    return cls


class FieldType:
    """A wire type with its contents: `element` is the type of an array's elements, `struct` the class of a struct."""

    def __init__(self, wire: Wire, element: "FieldType | None" = None, struct: type | None = None) -> None:
        self.wire = wire
        self.element = element
        self.struct = struct


class Field:
    """A resolved field. Its default may be shared between messages, unless it is a list or a struct."""

    def __init__(self, name: str, type: FieldType, since: Since) -> None:
        self.name = name
        self.type = type
        self.make_default = since.make_default
        self.default = since.make_default()
        self.default_is_shared = type.element is None and (type.struct is None or self.default is None)
        self.first = since.first
        self.until = since.until
        self.nullable_from = since.nullable_from
        self.tag = since.tag
        self.ignorable = since.ignorable

    def is_in(self, version: int) -> bool:
        """True if the version has this field."""
        return self.first <= version <= self.until

    def may_be_null(self, version: int) -> bool:
        """True if the field may be null in the version."""
        return self.type.wire.nullable and version >= self.nullable_from


_STRUCT = Wire("struct")
_fields: dict[type, tuple[Field, ...]] = {}


def fields_of(cls: type) -> tuple[Field, ...]:
    """Return the fields of a declared class in wire order. They are resolved on first use."""
    fields = _fields.get(cls)
    if fields is None:
        fields = tuple(_field(cls, name, annotation) for name, annotation in cls.__annotations__.items())
        _fields[cls] = fields
    return fields


def _field(cls: type, name: str, annotation: Any) -> Field:
    declared = cls.__dict__[name]
    if not isinstance(declared, Since):
        declared = Since(_default_maker(declared))
    return Field(name, _field_type(annotation), declared)


def _field_type(annotation: Any) -> FieldType:
    metadata = getattr(annotation, "__metadata__", None)
    if metadata is None:
        return FieldType(_STRUCT, struct=annotation)
    wire: Wire = metadata[-1]
    inner = annotation.__origin__
    if wire.nullable:
        inner = inner.__args__[0]
    if wire.name == "array":
        return FieldType(wire, element=_field_type(inner.__args__[0]))
    if wire.name == "struct":
        return FieldType(wire, struct=inner)
    return FieldType(wire)


def _default_maker(default: Any) -> Callable[[], Any]:
    """Return a factory of the default: a new list for each message; other defaults are immutable and shared."""
    return list if default == [] else lambda: default


def defaults_of(cls: type) -> dict[str, Any]:
    """Return a fresh default for every field, in wire order."""
    values, fresh = _blank(cls)
    for name, make in fresh:
        values[name] = make()
    return values


_blanks: dict[type, tuple[dict[str, Any], list[tuple[str, Callable[[], Any]]]]] = {}


def _blank(cls: type) -> tuple[dict[str, Any], list[tuple[str, Callable[[], Any]]]]:
    """Return a new dict of the defaults, and the factories of those that must not be shared."""
    defaults = _blanks.get(cls)
    if defaults is None:
        fields = fields_of(cls)
        fresh = [(field.name, field.make_default) for field in fields if not field.default_is_shared]
        defaults = _blanks[cls] = {field.name: field.default for field in fields}, fresh
    return defaults[0].copy(), defaults[1]


def _init(self: Any, **given: Any) -> None:
    values, fresh = _blank(type(self))
    for name, make in fresh:
        if name not in given:
            values[name] = make()
    field_count = len(values)
    values.update(given)
    if len(values) > field_count:
        unknown = ", ".join(list(values)[field_count:])
        raise TypeError(f"{type(self).__name__} has no field {unknown}")
    self.__dict__ = values


def _equal(self: Any, other: object) -> Any:
    if type(self) is not type(other):
        return NotImplemented
    return self.__dict__ == other.__dict__


def _show(self: Any) -> str:
    shown = (
        f"{name}={'[hidden]' if name in _SECRETS else _brief(value)}"
        for name, default in defaults_of(type(self)).items()
        if (value := self.__dict__[name]) != default
    )
    return f"{type(self).__name__}({', '.join(shown)})"


#: Fields with passwords, tokens, or values that serve as such: SASL messages, delegation tokens, SCRAM users.
_SECRETS = {"auth_bytes", "hmac", "salted_password"}


def _brief(value: Any) -> str:
    if isinstance(value, (bytes, bytearray, memoryview)) and len(value) > 32:
        return f"<{len(value)} bytes>"
    return repr(bytes(value)) if isinstance(value, memoryview) else repr(value)
