"""`kcli group explain`: explain why groups make no progress, from two observations. Never joins, never commits."""

from __future__ import annotations

from contextlib import closing
from itertools import chain
from typing import TYPE_CHECKING, Annotated

from kcli.cli import exit_status
from kcli.cli.environment import Environment
from kcli.cli.options import Common, check_choice, check_interval
from kcli.cli.parser import Argument, Option

if TYPE_CHECKING:
    from kcli.admin.explain.findings import Finding
    from kcli.admin.explain.observations import Observations
    from kcli.admin.groups.lag import LagTotals
    from kcli.cli.output.report import Item
    from kcli.client.requests import Results

KIND = "group.explain"
COLUMNS = ["group", "severity", "finding", "subject", "evidence", "advice"]
# A little more than auto.commit.interval.ms, so that a consumer that keeps up commits between the observations.
INTERVAL_S = 6.0


def run(
    env: Environment,
    common: Common,
    group: Annotated[list[str], Argument(metavar="GROUP...", help="Groups to explain.")],
    interval: Annotated[
        float, Option("--interval", metavar="SECONDS", help="Wait this long between the two observations.")
    ] = INTERVAL_S,
    fail_on: Annotated[
        str | None,
        Option(
            "--fail-on",
            metavar="SEVERITY",
            help="Exit with 6 if a finding has this severity or a higher one: problem, warning or note.",
        ),
    ] = None,
) -> int:
    """Explain why groups make no progress: each finding with its evidence and advice.

    The command observes each group twice and compares. A problem loses or stops records now, a warning may become a
    problem, a note explains what is normal. The exit status does not depend on findings unless --fail-on is given. A
    member that could not join the group (not authorized, or without an assignor in common with the others) cannot be
    observed: check its log. The command only reads; it does not disturb the group.
    """
    from kcli.admin.explain.findings import SEVERITIES, exceeds
    from kcli.admin.explain.observe import observe_twice
    from kcli.admin.explain.rules import explain
    from kcli.admin.groups.listing import with_suggestions

    check_interval(interval)
    if fail_on is not None:
        check_choice("--fail-on", fail_on, SEVERITIES)
    names = list(dict.fromkeys(group))
    with closing(common.connect()) as client:
        if env.stderr_is_terminal:
            env.report(f"kcli: two observations, {interval:g} s apart ...")
        observed = observe_twice(client, dict.fromkeys(names), interval * 1000, common.timeout_ms)
        observed.errors = with_suggestions(client, observed.errors, client.clock.now_ms() + common.timeout_ms)
    findings = {name: explain(observations) for name, observations in observed.values.items()}
    if common.output in (None, "table"):
        _print_pages(env, names, observed, findings)
    else:
        _show(env, common, names, observed, findings)
    failed = [*observed.errors.values(), *(e for seen in observed.values.values() for e in seen.request_errors())]
    if status := exit_status.status_of_all(failed):
        return status
    return exit_status.THRESHOLD if fail_on and exceeds(chain(*findings.values()), [fail_on]) else exit_status.DONE


def _show(
    env: Environment,
    common: Common,
    names: list[str],
    observed: Results[str, Observations],
    findings: dict[str, list[Finding]],
) -> None:
    from kcli.cli.group.rows import failed_group
    from kcli.cli.output.finding_pages import finding_item
    from kcli.cli.output.printer import print_report
    from kcli.cli.output.report import Report

    items, rows = [], []
    for name in names:
        if name in observed.errors:
            failed = failed_group(name, observed.errors[name])
            items.append(failed)
            rows.append(failed)
            continue
        of_group = [finding_item(finding) for finding in findings[name]]
        items.append({**_group_item(observed.values[name]), "findings": of_group})
        rows += [{"group": name, **finding} for finding in of_group]
    print_report(env, Report(KIND, COLUMNS, items, rows), common.output)


def _group_item(seen: Observations) -> Item:
    from kcli.admin.groups.lag import total_lag
    from kcli.cli.group.rows import group_item

    return {**group_item(seen.group), "lag": total_lag(seen.partitions).known_lag, "elapsed_ms": round(seen.elapsed_ms)}


def _print_pages(
    env: Environment, names: list[str], observed: Results[str, Observations], findings: dict[str, list[Finding]]
) -> None:
    from kcli.cli.output.finding_pages import page

    for name in names:
        if name in observed.values:
            env.stdout.write(page(env, heading(observed.values[name]), findings[name]))
        else:
            env.report(f"kcli: {observed.errors[name]}")


def heading(seen: Observations) -> str:
    """Return a line on the group and its observations."""
    from kcli.admin.groups.lag import total_lag
    from kcli.text import format_count, format_duration, group_text

    group = seen.group
    totals = total_lag(seen.partitions)
    return (
        f"{group_text(group.group)}: {group.type} group, {group.state}, {format_count(len(group.members), 'member')}, "
        f"{format_count(totals.partitions, 'partition')}, lag {_lag(totals)}; "
        f"two observations, {format_duration(seen.elapsed_ms)} apart"
    )


def _lag(totals: LagTotals) -> str:
    if totals.unknown and totals.unknown == totals.partitions:
        return "unknown"
    return f"{totals.lag:,}" + (f", unknown in {totals.unknown}" if totals.unknown else "")
