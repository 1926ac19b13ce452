"""Decoded payloads as Arrow arrays: the values, the reasons of those that do not decode, and their bytes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from kcli.protocol.records.arrow_arrays import binary_array
from kcli.schemas.serdes import DecodeError
from kcli.spark.decoding.column_types import arrow_type, converter

if TYPE_CHECKING:
    from kcli.protocol.records.columns import RecordColumns
    from kcli.schemas.serdes import Decoder
    from kcli.spark.decoding.sides import Decoding

_REFUSED = (pa.ArrowException, TypeError, ValueError, OverflowError)


class DecodedColumn:
    """Decoder of one side of the records of a topic, with the conversion to Arrow."""

    def __init__(self, decoding: Decoding, topic: str, decoder: Decoder) -> None:
        self.side = decoding.side
        #: The columns: the value, the reason if it does not decode, its bytes.
        self.names = (self.side, f"{self.side}_error", f"{self.side}_raw")
        self._type = arrow_type(decoding.column_type)
        self._topic = topic
        self._decoder = decoder
        self._keeps_all = decoding.keeps_raw
        self._convert_exactly = converter(decoding.column_type, exact=True) or (lambda value: value)
        # Values of JSON may have any types, those of other formats have the types of their schema.
        self._convert = self._convert_exactly if decoding.name == "json-schema" else converter(decoding.column_type)

    def arrow_types(self) -> dict[str, Any]:
        """Return the types of the columns by name."""
        return dict(zip(self.names, (self._type, pa.string(), pa.binary()), strict=True))

    def arrays(self, records: RecordColumns) -> dict[str, Any]:
        """Return the columns of these records by name. RegistryError if the registry cannot be asked for a schema."""
        starts, lengths = (
            (records.key_starts, records.key_lengths)
            if self.side == "key"
            else (records.value_starts, records.value_lengths)
        )
        raw = binary_array(records.buffer, starts, lengths)
        payloads = raw.to_pylist()
        values = self._decoder.decode(self._topic, payloads, _schema_headers(records, f"__{self.side}_schema_id"))
        errors: list[str | None] = [None] * len(values)
        for row, value in enumerate(values):
            if isinstance(value, DecodeError):
                errors[row], values[row] = str(value), None
        array = self._array(values, errors)
        reasons = pa.array(errors, pa.string())
        if not self._keeps_all:
            nothing = pa.scalar(None, pa.binary())
            raw = pc.if_else(reasons.is_valid(), raw, nothing) if any(errors) else pa.nulls(len(values), pa.binary())
        return dict(zip(self.names, (array, reasons, raw), strict=True))

    def _array(self, values: list[Any], errors: list[str | None]) -> Any:
        """Return the array of the values; the errors get those that the type cannot represent."""
        convert = self._convert
        try:
            ready = values if convert is None else [None if value is None else convert(value) for value in values]
            return pa.array(ready, self._type)
        except Exception:  # of values that are not of their types; find out which
            pass
        single = []
        for row, value in enumerate(values):
            try:
                if value is not None:
                    value = self._convert_exactly(value)
                    pa.array([value], self._type)
            except _REFUSED as error:
                errors[row] = f"the value does not fit its column: {' '.join(str(error).split())[:300]}"
                value = None
            single.append(value)
        return pa.array(single, self._type)


def _schema_headers(records: RecordColumns, name: str) -> Sequence[bytes | None] | None:
    """Return the last header of this name of each record; None if no record has headers."""
    # Without headers there is a single byte, the count.
    if not len(records) or int((records.header_ends - records.header_starts).max()) <= 1:
        return None
    found = [dict(record.headers).get(name) for record in records]
    return found if any(found) else None
