"""Many batch headers of format v2 at once, as one structured array."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from kcli.protocol.records.batch import HEADER_BYTES

HEADER_DTYPE = np.dtype(
    [
        ("base_offset", ">i8"),
        ("size", ">i4"),
        ("leader_epoch", ">i4"),
        ("magic", "i1"),
        ("crc", ">u4"),
        ("attributes", ">i2"),
        ("last_offset_delta", ">i4"),
        ("base_timestamp", ">i8"),
        ("max_timestamp", ">i8"),
        ("producer_id", ">i8"),
        ("producer_epoch", ">i2"),
        ("base_sequence", ">i4"),
        ("count", ">i4"),
    ]
)


def gather_headers(data: NDArray[np.uint8], starts: NDArray[np.int64]) -> NDArray[np.void]:
    """The v2 headers at `starts` as one structured array (big-endian fields, see `HEADER_DTYPE`)."""
    rows = data[starts[:, None] + np.arange(HEADER_BYTES)]
    headers: NDArray[np.void] = rows.view(HEADER_DTYPE).reshape(len(starts))
    return headers
