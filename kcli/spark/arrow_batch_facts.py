"""Columns of `records` that tell of the batch around a record, as Arrow arrays: only for those who name them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from kcli.protocol.records.batch_facts import BatchFacts, batch_facts
from kcli.protocol.records.compression import CODEC_NAMES
from kcli.spark.arrow_arrays import number_array

if TYPE_CHECKING:
    from kcli.protocol.records.columns import RecordColumns
    from kcli.protocol.records.varints import Ints


def batch_fact_array(name: str, records: RecordColumns) -> Any:
    """The column called `name`, one of `columns.BATCH_FACTS`; null where the batch does not tell it."""
    return _MAKERS[name](batch_facts(records))


def _ints(values: Ints) -> Any:
    return number_array(values.astype(np.int32), pa.int32(), values < 0)


def _longs(values: Ints) -> Any:
    return number_array(values, pa.int64(), values < 0)


_MAKERS: dict[str, Callable[[BatchFacts], Any]] = {
    "leader_epoch": lambda facts: _ints(facts.of_each(facts.batches.leader_epochs)),
    "producer_id": lambda facts: _longs(facts.of_each(facts.batches.producer_ids)),
    "producer_epoch": lambda facts: _ints(facts.of_each(facts.batches.producer_epochs)),
    "sequence": lambda facts: _ints(facts.sequences()),
    "base_offset": lambda facts: _longs(facts.base_offsets()),
    "compression": lambda facts: pa.array(CODEC_NAMES, pa.string()).take(pa.array(facts.codecs())),
    "is_transactional": lambda facts: pa.array(facts.transactional() == 1, pa.bool_()),
}
