"""Options for the formats of keys and values in `kcli consume` and `kcli produce`: -s, --schema-file, --message."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Annotated, TypeAlias

from kcli.cli.parser import Option
from kcli.errors import ConfigError

if TYPE_CHECKING:
    from kcli.schemas.serdes import Side

SIDES: tuple[Side, Side] = ("key", "value")

SchemaFileOption: TypeAlias = Annotated[
    list[str] | None,
    Option(
        "--schema-file",
        metavar="[key=|value=]FILE",
        help="Schema of -s in a file (.avsc, .proto, .json), without a registry or beside it. [value]",
    ),
]
MessageOption: TypeAlias = Annotated[
    list[str] | None,
    Option("--message", metavar="[key=|value=]NAME", help="Protobuf message in the schema file. [value; the first]"),
]


def by_side(option: str, texts: Iterable[str], default: Sequence[Side]) -> dict[Side, str]:
    """Return the values of an option of the form `[key=|value=]TEXT` by side; without a side, TEXT is for `default`.

    Raise ConfigError for an empty text and for two values of one side.
    """
    chosen: dict[Side, str] = {}
    for given in texts:
        text = given.partition("=")[2]
        sides: Sequence[Side] = [side for side in SIDES if given.startswith(f"{side}=")]
        if not sides:
            sides, text = default, given
        if not text:
            raise ConfigError(f"{option}: '{given}' is not valid; use {option} [key=|value=]...")
        for side in sides:
            if side in chosen:
                raise ConfigError(f"{option}: {side} is given twice, as {chosen[side]} and as {text}")
            chosen[side] = text
    return chosen
