"""`kcli profile check`: a connection made step by step."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from typing import TYPE_CHECKING, Annotated

from kcli.cli import exit_status
from kcli.cli.environment import Environment
from kcli.cli.options import Common
from kcli.cli.parser import Argument
from kcli.errors import KcliError

if TYPE_CHECKING:
    from kcli.cli.output.report import Item
    from kcli.client.config import ClientConfig
    from kcli.client.connection.connection_check import Step

COLUMNS = ["step", "server", "status", "detail"]


def run(
    env: Environment,
    common: Common,
    name: Annotated[
        str | None, Argument(metavar="[PROFILE]", help="Profile to check; default: the one in use, and the options.")
    ] = None,
) -> int:
    """Connect step by step, and show where it stops, why, and what to do.

    The steps of each bootstrap server are DNS, TCP, TLS with the version, cipher and certificate, the API versions, and
    SASL with the mechanisms that the broker offers and the lifetime of the session. Then the cluster is described: the
    operations that are authorized on it, the brokers at the addresses that they advertise, and on how many of the
    visible topics and groups the operations DESCRIBE, READ, and WRITE or (of groups) DELETE are authorized. Nothing is
    changed. A warning on stderr names each setting by which others can read a password or token, or take the place of
    a server: PLAIN or OAUTHBEARER without TLS, http with credentials, and switched-off checks of certificates.

    Without a profile, the options and variables of all commands say what to check. Exit status: 0 if every step is ok,
    2 for an invalid setting, 4 if TLS, SASL or a request is refused, 5 if a server cannot be reached, 1 for several of
    these.
    """
    from kcli.cli.output.printer import print_report
    from kcli.cli.output.report import Report

    steps = list(_steps(common, name))
    items = [_item(step) for step in steps]
    is_table = common.output in (None, "table")
    rows = [
        {**item, "detail": step.error or step.detail, "error": None} for item, step in zip(items, steps, strict=True)
    ]
    print_report(env, Report("profile.check", COLUMNS, items, rows if is_table else None), common.output)
    for step in steps:
        for warning in step.facts.get("warnings", ()):
            env.report(f"kcli: warning: {warning}")
        if step.error is not None and is_table and not env.stdout_is_terminal:
            env.report(f"kcli: {step.name}{f' with {step.server}' if step.server else ''} failed: {step.error}")
    return exit_status.status_of_all(step.error for step in steps)


def _steps(common: Common, name: str | None) -> Iterator[Step]:
    """Yield the steps. If no server has passed all of its steps, the cluster is not asked."""
    from kcli.admin.access import STEPS, check_access
    from kcli.client.connection.connection_check import Step, check_servers

    try:
        if name is not None:
            common = common.with_profile(name)
        config: ClientConfig = common.config()
        deadline_ms = common.deadline_ms()
        steps = list(check_servers(config, common.env.clock, deadline_ms))
    except KcliError as error:
        yield Step("configuration", error=error)
        return
    yield from steps
    servers = {step.server for step in steps if step.server is not None}
    failed = {step.server for step in steps if step.error is not None}
    if servers - failed and None not in failed:
        with closing(common.connect(config)) as client:
            yield from check_access(client, deadline_ms)
    else:
        yield from map(Step, STEPS)


def _item(step: Step) -> Item:
    from kcli.cli.output.report import error_field

    item: Item = {"step": step.name, "server": step.server, "status": step.status, "detail": step.detail, **step.facts}
    return item if step.error is None else {**item, "error": error_field(step.error)}
