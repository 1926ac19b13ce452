"""Control records, decoded as records whose key and value are text: the markers that end transactions (KIP-98).

The key is the type (`commit`, `abort`), the value one JSON object:

    {"type": "commit", "producer_id": 4000, "producer_epoch": 0, "coordinator_epoch": 3}

The producer is that of the batch header; the coordinator epoch is the marker's own field. The other types are those of
KRaft's metadata log (KIP-595, KIP-630, KIP-853); a type that is not known is `unknown(N)`. These have the type only.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Sequence
from itertools import accumulate

import numpy as np

from kcli.errors import CorruptRecords
from kcli.protocol.records import batch
from kcli.protocol.records.checksum import crc32c
from kcli.protocol.records.columns import APPEND_TIME, CREATE_TIME, RecordColumns
from kcli.protocol.records.record import Record, control_type
from kcli.protocol.records.scan import iter_records
from kcli.protocol.records.sections import DecodedSection, OpenedSection, OpenedSections, RecordSection
from kcli.protocol.records.varints import Ints

MAX_BATCHES_PER_CALL = 1 << 18
TYPES = ("abort", "commit", "leader_change", "snapshot_header", "snapshot_footer", "kraft_version", "kraft_voters")
_TRANSACTION_TYPES = ("abort", "commit")
_VERSION_AND_COORDINATOR_EPOCH = struct.Struct(">hi")


def decode_control(sections: Sequence[RecordSection]) -> list[DecodedSection]:
    """Decode as `decode_sections`, but only the control records, and check only their batches."""
    if not sections:
        return []
    opened = OpenedSections(sections, MAX_BATCHES_PER_CALL)
    opened.check_headers()
    is_control = (opened.batches.attributes & batch.CONTROL_BIT) != 0
    is_control &= (opened.batches.counts > 0) & (opened.batches.magic == 2)
    return [
        opened.result(section, _section_columns(opened, section, np.flatnonzero(is_control[section.rows])))
        for section in opened.sections
    ]


def _section_columns(opened: OpenedSections, section: OpenedSection, rows: Ints) -> RecordColumns | None:
    texts: list[tuple[Record, int]] = []
    for row in (rows + section.first).tolist():
        try:
            texts += _batch_texts(opened, section, row)
        except CorruptRecords as problem:
            opened.fail(row, problem.message)
            break
    return _columns([text for text in texts if text[0].offset >= section.section.fetch_offset]) if texts else None


def _batch_texts(opened: OpenedSections, section: OpenedSection, row: int) -> list[tuple[Record, int]]:
    """Return the control records of a batch, with key and value as text, and their timestamp type."""
    batches = opened.batches
    data = memoryview(section.buffer)[int(batches.starts[row]) : int(batches.ends[row])]
    computed, stored = crc32c(data[batch.CRC_FROM :]), int(batches.crcs[row])
    if computed != stored:
        raise CorruptRecords(f"its CRC is {computed:#010x} and should be {stored:#010x}")
    appended = bool(batches.attributes[row] & batch.APPEND_TIME_BIT)
    producer = int(batches.producer_ids[row]), int(batches.producer_epochs[row])
    return [(_as_text(record, *producer), APPEND_TIME if appended else CREATE_TIME) for record in iter_records(data)]


def _as_text(record: Record, producer_id: int, producer_epoch: int) -> Record:
    number = control_type(record.key)
    if number is None:
        raise CorruptRecords("the control record has no type")
    name = TYPES[number] if 0 <= number < len(TYPES) else f"unknown({number})"
    fields: dict[str, str | int] = {"type": name}
    if name in _TRANSACTION_TYPES:
        if record.value is None or len(record.value) < _VERSION_AND_COORDINATOR_EPOCH.size:
            raise CorruptRecords("the transaction marker has no coordinator epoch")
        _, coordinator_epoch = _VERSION_AND_COORDINATOR_EPOCH.unpack_from(record.value)
        fields |= {"producer_id": producer_id, "producer_epoch": producer_epoch, "coordinator_epoch": coordinator_epoch}
    return record._replace(key=name.encode(), value=json.dumps(fields).encode(), headers=[])


def _columns(records: list[tuple[Record, int]]) -> RecordColumns:
    """Return records with keys and values, without headers, as columns over a new buffer."""
    payloads = [part or b"" for record, _ in records for part in (record.key, record.value)]
    lengths = np.array([len(part) for part in payloads], np.int64)
    starts = np.array([0, *accumulate(map(len, payloads))][:-1], np.int64)
    none = np.zeros(len(records), np.int64)
    return RecordColumns(
        b"".join(payloads),
        offsets=np.array([record.offset for record, _ in records], np.int64),
        timestamps_ms=np.array([record.timestamp_ms for record, _ in records], np.int64),
        key_starts=starts[0::2],
        key_lengths=lengths[0::2],
        value_starts=starts[1::2],
        value_lengths=lengths[1::2],
        header_starts=none,
        header_counts=none,
        header_ends=none,
        timestamp_types=np.array([kind for _, kind in records], np.int8),
    )
