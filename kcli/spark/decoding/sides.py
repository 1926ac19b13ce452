"""Decoding of keys or values: the options as given, and the plan that is sent to the tasks. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

from kcli.spark.decoding.column_types import sql_type

if TYPE_CHECKING:
    from kcli.schemas.serdes import Side
    from kcli.spark.decoding.column_types import ColumnType


class DecodeOptions(NamedTuple):
    """Options of one side, as given. `version` and `subject` choose the reader's schema, `raw` is errors or all."""

    side: Side
    name: str
    subject: str | None = None
    version: str = "latest"
    schema_file: str | None = None
    message: str | None = None
    raw: str = "errors"


class Decoding(NamedTuple):
    """Decoding of one side of all records of a query. Plain data that pickles.

    `schema` is the text of the reader's schema and `referred` those that it refers to; None for decoders without one.
    `keeps_raw`: the column of bytes has those of all records.
    """

    side: Side
    name: str
    column_type: ColumnType
    keeps_raw: bool = False
    schema: str | None = None
    referred: tuple[tuple[str, str], ...] = ()
    message: str | None = None

    @property
    def columns(self) -> list[tuple[str, str]]:
        """The columns of this side by name, with their SQL types."""
        value = (self.side, sql_type(self.column_type))
        return [value, (f"{self.side}_error", "string"), (f"{self.side}_raw", "binary")]


def read_decode_options(texts: Mapping[str, str]) -> tuple[DecodeOptions, ...]:
    """Return the options of each side that is decoded, from options by lower-case name. ConfigError. Pure."""
    sides = []
    names: tuple[Side, ...] = ("key", "value")
    for side in names:
        given = {name.removeprefix(f"{side}."): text for name, text in texts.items() if name.startswith(f"{side}.")}
        name = given.pop("decode", None)
        if name is None:
            continue
        sides.append(
            DecodeOptions(
                side,
                name,
                given.get("subject"),
                given.get("schema.version", "latest"),
                given.get("schema.file"),
                given.get("message"),
                given.get("raw", "errors"),
            )
        )
    return tuple(sides)
