"""`kcli cluster check`: faults of a cluster, each with evidence and advice."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING, Annotated

from kcli.cli import exit_status
from kcli.cli.environment import Environment
from kcli.cli.options import Common
from kcli.cli.parser import Option
from kcli.errors import ConfigError

if TYPE_CHECKING:
    from kcli.admin.explain.findings import Finding
    from kcli.admin.health.inventory import Inventory

KIND = "cluster.check"
_BYTES_PER_MB = 1_000_000


def run(
    env: Environment,
    common: Common,
    fail_on: Annotated[
        str | None,
        Option(
            "--fail-on",
            metavar="NAME,...",
            help="Exit with 6 for these findings, or for a severity and higher ones: problem, warning or note.",
        ),
    ] = None,
    ignore: Annotated[
        str | None,
        Option(
            "--ignore", metavar="FINDING,...", help="Do not report these findings, nor request facts only for them."
        ),
    ] = None,
    disk_floor: Annotated[
        int,
        Option("--disk-floor", metavar="MB", min=0, help="Ignore differences in disk use below this many megabytes."),
    ] = 1000,
) -> int:
    """Check a cluster and report its faults: each finding with its evidence and advice.

    A problem makes partitions or brokers unavailable now, a warning may become a problem. The findings are:
    broker-offline, broker-unreachable, log-dir-offline, disk-nearly-full, uneven-disk (by a factor of 1.5 from the
    mean), offline (no live replica), leaderless (live replicas, but none in sync), under-replicated, under-min-isr,
    not-preferred-leader, hanging-transaction, overdue-transaction, unlike-versions, unlike-settings, single-replica,
    unclean-election, and unchecked: facts that a broker refused or did not return.

    The exit status does not depend on findings unless --fail-on is given. If a fact cannot be requested, the status is
    that of the error, and 6 if --fail-on applies too. The command only reads.
    """
    from kcli.admin.explain.findings import exceeds
    from kcli.admin.health.check import facts_for, find_faults
    from kcli.admin.health.inspection import inspect_cluster
    from kcli.denials import not_listed

    fatal, ignored = _names("--fail-on", fail_on, severities=True), _names("--ignore", ignore, severities=False)
    with closing(common.connect()) as client:
        facts = inspect_cluster(client, common.deadline_ms(), facts=facts_for(ignored))
        note = not_listed("topics", client.principal)
    findings = find_faults(facts, ignore=ignored, disk_floor=disk_floor * _BYTES_PER_MB)
    _show(env, common, facts, findings)
    if note is not None:
        env.report(f"kcli: note: {note}, so they are not checked")
    if exceeds(findings, fatal):
        return exit_status.THRESHOLD
    return exit_status.status_of_all(facts.errors)


def _names(option: str, text: str | None, *, severities: bool) -> frozenset[str]:
    """Return the names in a list separated by commas. `ConfigError` for an unknown one."""
    from kcli.admin.explain.findings import SEVERITIES
    from kcli.admin.health.check import KINDS
    from kcli.text import closest_name

    known = [*(SEVERITIES if severities else ()), *KINDS]
    names = [name.strip() for name in (text or "").split(",") if text is not None]
    for name in names:
        if name not in known:
            close = closest_name(name, known)
            hint = f"did you mean {close}?" if close else f"use {', '.join(known)}"
            raise ConfigError(f"{option}: '{name}' is not valid; {hint}")
    return frozenset(names)


def _show(env: Environment, common: Common, facts: Inventory, findings: list[Finding]) -> None:
    from kcli.cli.output.finding_pages import COLUMNS, finding_item, page

    if common.output not in (None, "table"):
        from kcli.cli.output.printer import print_report
        from kcli.cli.output.report import Report

        print_report(env, Report(KIND, COLUMNS, [finding_item(finding) for finding in findings]), common.output)
    else:
        env.stdout.write(page(env, _heading(facts), findings))


def _heading(facts: Inventory) -> str:
    from kcli.text import format_count

    counts = {"broker": len(facts.brokers), "topic": len(facts.topics), "partition": len(list(facts.partitions))}
    return ", ".join(format_count(number, noun) for noun, number in counts.items())
