"""What Apache's group tool checks before it resets: that partitions are there and led. Pure."""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence
from typing import TYPE_CHECKING

from kcli.admin.offsets import targets
from kcli.admin.offsets.plan import WHOLE_TOPIC
from kcli.cli import exit_status
from kcli.cli.compat.problems import Failed, failure, words_of
from kcli.cli.compat.scope import parse_partitions
from kcli.error_codes import ErrorCode
from kcli.errors import BrokerError, KcliError

if TYPE_CHECKING:
    from kcli.admin.offsets.plan import PartitionFacts
    from kcli.structs import TopicPartition

_MISSING = (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID)


def check_partitions(texts: Sequence[str], facts: Iterable[PartitionFacts], missing: Container[str]) -> None:
    """The tool's failure for the first of the partitions (of `texts`, as given) that cannot be reset, in its order.

    `missing`: topics that are not there at all.
    """
    errors: dict[TopicPartition, KcliError] = {fact.tp: fact.error for fact in facts if fact.error is not None}
    whole = {tp.topic: error for tp, error in errors.items() if tp.partition == WHOLE_TOPIC}
    for text in texts:
        if text in whole:
            raise Failed(words_of(whole[text]), exit_status.status_of(whole[text]))
    for tp, error in errors.items():
        if tp.partition == WHOLE_TOPIC or tp.topic in missing:
            raise failure(error, wrapped=True)
    named = [tp for text in texts if ":" in text for tp in parse_partitions(text)]
    order = [tp for tp in dict.fromkeys(named) if tp in errors] + [tp for tp in errors if tp not in named]
    if absent := [tp for tp in order if _code(errors[tp]) in _MISSING]:
        raise Failed(f'The partitions "{_joined(absent)}" do not exist', exit_status.NOT_FOUND)
    if unled := [tp for tp in order if _code(errors[tp]) == ErrorCode.LEADER_NOT_AVAILABLE]:
        raise Failed(f'The partitions "{_joined(unled)}" have no leader', exit_status.FAILED)
    for tp in order:
        raise failure(errors[tp], wrapped=True)


def requested_offset(group: str, fact: PartitionFacts, target: targets.Target) -> int | None:
    """The offset that was asked for by number, before it is bent to what the log has."""
    if isinstance(target, targets.ToOffset):
        return target.offset
    if isinstance(target, targets.ShiftBy) and fact.committed is not None:
        return fact.committed.offset + target.by
    if isinstance(target, targets.FromOffsets):
        told = target.find(group, fact.tp)
        return told.offset if told is not None else None
    return None


def _code(error: KcliError) -> ErrorCode | None:
    return error.code if isinstance(error, BrokerError) else None


def _joined(partitions: Iterable[TopicPartition]) -> str:
    return ",".join(map(str, partitions))
