"""`kcli group explain`: why groups are stuck or silent, from two looks at them. Never joins, never commits."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING, Annotated

from kcli.cli import exit_status
from kcli.cli.environment import Environment
from kcli.cli.options import Common
from kcli.cli.parser import Argument, Option
from kcli.error_codes import ErrorCode
from kcli.errors import BrokerError, ConfigError, KcliError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kcli.admin.explain.facts import Facts
    from kcli.admin.explain.findings import Finding
    from kcli.cli.output.report import Item
    from kcli.client.requests import Results

KIND = "group.explain"
COLUMNS = ["group", "severity", "finding", "subject", "evidence", "advice"]
# A little more than auto.commit.interval.ms, so that a consumer that keeps up has committed between the looks.
INTERVAL_S = 6.0
_ASKED_FOR = (ErrorCode.LEADER_NOT_AVAILABLE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)


def run(
    env: Environment,
    common: Common,
    group: Annotated[list[str], Argument(metavar="GROUP...", help="Groups to explain.")],
    interval: Annotated[
        float, Option("--interval", metavar="SECONDS", help="Time between the two looks.")
    ] = INTERVAL_S,
    fail_on: Annotated[
        str | None,
        Option("--fail-on", metavar="SEVERITY", help="Status 6 when a problem (or: warning, note) is found."),
    ] = None,
) -> int:
    """Why groups are stuck or silent: each finding with its evidence and what to do.

    It looks twice and compares. A problem loses or stops records now, a warning may come to that, a note explains what
    is seen. Whatever is found, the status is 0, unless --fail-on says otherwise. A member that never got into the
    group, because it is refused or has no assignor in common with the others, is not to be seen from outside: see its
    log. Looking at a group does not disturb it.
    """
    from kcli.admin.explain.gather import look_twice
    from kcli.admin.explain.rules import explain
    from kcli.cli.group.selection import check_names

    check_names(group)
    _check(interval, fail_on)
    with closing(common.connect()) as client:
        if env.stderr_is_terminal:
            env.say(f"kcli: two looks, {interval:g} s apart ...")
        found = look_twice(client, dict.fromkeys(group), interval * 1000, common.timeout_ms)
    findings = {name: explain(facts) for name, facts in found.values.items()}
    _show(env, common, list(dict.fromkeys(group)), found, findings)
    failed = [*found.errors.values(), *(error for facts in found.values.values() for error in _unread(facts))]
    return exit_status.status_of_all(failed) or _threshold(findings, fail_on)


def _check(interval: float, fail_on: str | None) -> None:
    from kcli.admin.explain.findings import SEVERITIES
    from kcli.cli.options import check_interval

    check_interval(interval)
    if fail_on is not None and fail_on not in SEVERITIES:
        raise ConfigError(f"--fail-on is one of {', '.join(SEVERITIES)}, not '{fail_on}'")


def _threshold(findings: dict[str, list[Finding]], fail_on: str | None) -> int:
    from kcli.admin.explain.findings import SEVERITIES

    if fail_on is None:
        return exit_status.DONE
    counting = SEVERITIES[: SEVERITIES.index(fail_on) + 1]
    exceeded = any(finding.severity in counting for found in findings.values() for finding in found)
    return exit_status.THRESHOLD if exceeded else exit_status.DONE


def _unread(facts: Facts) -> Iterator[KcliError]:
    """What went wrong with the asking itself; a missing topic or leader is what was asked for."""
    for error in (facts.second.error, *(row.error for row in facts.partitions)):
        if error is not None and not (isinstance(error, BrokerError) and error.code in _ASKED_FOR):
            yield error


def _show(
    env: Environment,
    common: Common,
    names: list[str],
    found: Results[str, Facts],
    findings: dict[str, list[Finding]],
) -> None:
    if common.output in (None, "table"):
        from kcli.cli.group.explanation import explanation

        for name in names:
            if name in found.values:
                env.stdout.write(explanation(env, found.values[name], findings[name]))
            else:
                env.say(f"kcli: {found.errors[name]}")
        return

    from kcli.cli.group.items import failed_group
    from kcli.cli.output.report import Report, show

    items, rows = [], []
    for name in names:
        if name in found.errors:
            failed = failed_group(name, found.errors[name])
            items.append(failed)
            rows.append(failed)
            continue
        told = [_item(finding) for finding in findings[name]]
        items.append({**_group_item(found.values[name]), "findings": told})
        rows += [{"group": name, **finding} for finding in told]
    show(env, Report(KIND, COLUMNS, items, rows), common.output)


def _item(finding: Finding) -> Item:
    item: Item = finding._asdict()
    item["finding"] = item.pop("kind")
    return item


def _group_item(facts: Facts) -> Item:
    from kcli.admin.groups.lag import total_lag
    from kcli.cli.group.items import group_item

    return {**group_item(facts.group), "lag": total_lag(facts.partitions).lag, "elapsed_ms": round(facts.elapsed_ms)}
