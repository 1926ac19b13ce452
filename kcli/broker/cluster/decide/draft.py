"""Draft: the records of one decision, and the state of the cluster as it will be with them."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from kcli.broker.cluster.image import Changes, MetadataImage
from kcli.protocol.metadata_records import ClearElrRecord

_NO_ID = UUID(int=0)


class Draft:
    """Records, and `image`: the given image until the first record is written, then a copy with all of them.

    Topics are copied when a record changes them.
    """

    def __init__(self, image: MetadataImage) -> None:
        self.image = image
        self.records: list[Any] = []
        self._start = image
        self._copied: set[str] = set()
        self._changes = Changes()  # which nobody reads

    def __repr__(self) -> str:
        return f"<Draft {len(self.records)} records on {self._start!r}>"

    @property
    def next_offset(self) -> int:
        """The offset of the next record that is written."""
        return self._start.offset + 1 + len(self.records)

    def write(self, record: Any) -> None:
        """Add a record and apply it to `image`."""
        if self.image is self._start:
            self.image = _copy(self._start)
        if isinstance(record, ClearElrRecord):
            self._own_topics([record.topic_name] if record.topic_name else list(self.image.topics))
        elif (topic := self.image.topic_by_id(getattr(record, "topic_id", _NO_ID))) is not None:
            self._own_topics([topic.name])
        self.image.apply(record, self._changes)
        self.records.append(record)

    def _own_topics(self, names: list[str]) -> None:
        """Copy topics, because applying a record changes their partitions in place."""
        topics = self.image.topics
        for name in names:
            if name not in self._copied and name in topics:
                topics[name] = topics[name]._replace(partitions=dict(topics[name].partitions))
                self._copied.add(name)


def _copy(image: MetadataImage) -> MetadataImage:
    """Return a copy that has its own dictionaries; their values are shared."""
    copy = MetadataImage()
    for name, value in vars(image).items():
        setattr(copy, name, dict(value) if isinstance(value, dict) else value)
    return copy
