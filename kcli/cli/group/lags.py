"""The lines of `kcli group lag`: what the partitions of each group, or of each of its topics, come to. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from kcli.admin.groups.lag import rows_by_topic, total_lag
from kcli.cli.group.items import failed_row, group_item, totals_item
from kcli.cli.group.rows import shown_time_lag
from kcli.cli.output.report import error_field

if TYPE_CHECKING:
    from kcli.admin.groups.lag import PartitionLag
    from kcli.admin.groups.survey import GroupSurvey
    from kcli.cli.output.report import Item
    from kcli.errors import KcliError

SUMS = ["partitions", "lag", "max_lag"]


def lag_columns(*, by_topic: bool, for_programs: bool) -> list[str]:
    whose = ["group", "topic"] if by_topic else ["group", "type", "state", "members"]
    return [*whose, *SUMS, "time_lag_ms" if for_programs else "time_lag", "unknown"]


def lag_item(survey: GroupSurvey) -> Item:
    """A group's totals, and those of its topics. A partition's error makes the sums incomplete, so it is the item's."""
    return {
        **group_item(survey.group),
        **_sums(survey.partitions, survey.error),
        "topics": [{"topic": topic, **_sums(rows)} for topic, rows in rows_by_topic(survey.partitions).items()],
    }


def _sums(rows: Sequence[PartitionLag], error: KcliError | None = None) -> Item:
    item: Item = totals_item(total_lag(rows))
    item["time_lag_notes"] = sorted({row.time_lag_note for row in rows if row.time_lag_note})
    errors = [row.error for row in rows if row.error is not None]
    if error is not None:
        item["error"] = error_field(error)
    elif errors:
        first = error_field(errors[0])
        some = "the sums are incomplete" if len(errors) < len(rows) else "no partition answered"
        item["error"] = {**first, "message": f"{some}: {first['message']}"}
    return item


def lag_rows(items: Iterable[Item], *, by_topic: bool) -> list[Item]:
    """A row for each group, or for each of its topics; what failed is a row too."""
    rows = []
    for item in items:
        if "lag" not in item:
            rows.append(failed_row(item))
        elif by_topic:
            rows += [{**_row(topic), "group": item["group"]} for topic in item["topics"]]
            if "error" in item and not any("error" in topic for topic in item["topics"]):
                rows.append(failed_row(item))
        else:
            rows.append({**_row(item), "members": item["member_count"]})
    return rows


def _row(item: Item) -> Item:
    ms = item["max_time_lag_ms"]
    time_lag = shown_time_lag(ms, "; ".join(item["time_lag_notes"]))
    return {**item, "partitions": item["partition_count"], "time_lag_ms": ms, "time_lag": time_lag}
