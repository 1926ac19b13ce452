"""What a table of partitions comes to, in sentences for standard error: scripts sum its columns themselves. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from kcli.admin.groups.lag import LagTotals, PartitionLag, total_lag, total_lag_by_topic
from kcli.admin.groups.time_lag import CREATE_TIME, DELETED, FUTURE, HOLE, NO_TIMESTAMP, NOTHING_THERE, PARTLY_DONE
from kcli.text import format_count, format_duration

if TYPE_CHECKING:
    from kcli.admin.groups.survey import GroupSurvey

FEW = 10  # with more groups than that, only what all come to is told


def summary(surveys: Sequence[GroupSurvey]) -> Iterator[str]:
    """Totals for each group and topic (of many groups only the grand one), then which time lags are unsound and why."""
    if len(surveys) <= FEW:
        for survey in surveys:
            yield from _of_group(survey)
    else:
        total = total_lag([p for survey in surveys for p in survey.partitions])
        yield f"{len(surveys)} groups: {shown_totals(total)}; `kcli group lag` has a line for each"
    yield from _notes(p for survey in surveys for p in survey.partitions)


def _of_group(survey: GroupSurvey) -> Iterator[str]:
    group = survey.group
    what = ", ".join(word for word in (group.type, group.state, format_count(len(group.members), "member")) if word)
    yield f"{group.group} ({what}): {shown_totals(total_lag(survey.partitions))}"
    yield from _of_spark(survey.partitions)
    topics = total_lag_by_topic(survey.partitions)
    if len(topics) > 1:
        for topic, totals in topics.items():
            yield f"  {topic}: {shown_totals(totals)}"


def _of_spark(partitions: Sequence[PartitionLag]) -> Iterator[str]:
    """Who commits for a group without members, where that is a streaming query: the newest batch of each."""
    notes = [p.committed.metadata for p in partitions if p.committed is not None and p.committed.metadata]
    if not notes:
        return
    from kcli.spark.group_commits import read_note

    newest: dict[str, int] = {}
    for query, batch in filter(None, map(read_note, notes)):
        newest[query] = max(batch, newest.get(query, batch))
    for query, batch in sorted(newest.items()):
        yield f"  committed by Spark query {query}, batch {batch}"


def shown_totals(totals: LagTotals) -> str:
    """`lag 1234 in 12 partitions, up to 3m07s; 2 of them not known`."""
    if not totals.partitions:
        return "nothing committed, nothing owned"
    if totals.unknown == totals.partitions:
        return f"lag not known in {format_count(totals.partitions, 'partition')}"
    text = f"lag {totals.lag} in {format_count(totals.partitions, 'partition')}"
    if totals.max_time_lag_ms:
        text += f", up to {format_duration(totals.max_time_lag_ms)}"
    return f"{text}; not known of {totals.unknown}" if totals.unknown else text


def _notes(partitions: Iterable[PartitionLag]) -> Iterator[str]:
    notes = Counter((p.time_lag_ms is None, p.time_lag_note) for p in partitions if p.time_lag_note)
    for (unknown, note), count in sorted(notes.items()):
        words = "; ".join(_WORDS.get(part, part) for part in note.split("; "))
        yield f"TIME-LAG {'-' if unknown else '~'} in {format_count(count, 'row')}: {words}"


_WORDS = {
    CREATE_TIME: "the producer's clock wrote the time",
    HOLE: "the record there is gone, the next one counts",
    DELETED: "the records there are deleted, the first that is left counts",
    PARTLY_DONE: "some records behind the start are done with, perhaps this one",
    NOTHING_THERE: "no record is there",
    NO_TIMESTAMP: "the record has no time",
    FUTURE: "the time is ahead of the clock here",
}
