"""What can go wrong with a position in a log, as errors that carry the offsets."""

from __future__ import annotations

from kcli.errors import KcliError


class OffsetOutOfRange(KcliError):
    """The position is not in the log: before its start or beyond its end.

    Evidence: topic, partition, offset; or, for several partitions, each with its offset.
    """


class NoOffset(KcliError):
    """There is no committed offset and `auto.offset.reset` is none. Evidence: group, partitions."""


class LogTruncated(KcliError):
    """What was read before the position is no longer what the log holds (KIP-320): an unclean leader election.

    Evidence: topic, partition, offset (the position), epoch (of the record before it), end_offset (where the log and
    what was read part ways; -1 unknown), end_epoch.
    """


class RecordTooLarge(KcliError):
    """A broker cut a batch off at the fetch limit. Evidence: topic, partition, offset, received (bytes)."""
