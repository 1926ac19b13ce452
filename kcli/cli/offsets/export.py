"""`kcli offsets export`: save committed offsets to a file, to commit them again later or elsewhere."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING, Annotated

from kcli.cli import exit_status
from kcli.cli.environment import Environment
from kcli.cli.group.selection import GroupSelection, find_selected
from kcli.cli.offsets.options import TopicScope, parse_scope
from kcli.cli.options import Common
from kcli.cli.parser import Option
from kcli.errors import ConfigError
from kcli.visible import visible_json

if TYPE_CHECKING:
    from kcli.admin.offsets.plan_files import Positions


def run(
    env: Environment,
    common: Common,
    groups: GroupSelection,
    topic: TopicScope = None,
    apache: Annotated[
        bool, Option("--apache", help="Write lines for kafka-consumer-groups --from-file; no epochs, no metadata.")
    ] = False,
) -> int:
    """Write committed offsets, leader epochs and metadata as json, or with --output csv.

    `kcli offsets apply` and `kcli offsets reset --from-file` read the file. If anything cannot be read, nothing is
    written on standard output, and the status is not 0. Groups that still commit are named on standard error. With
    --all and --match share groups are left out, because they have no committed offsets.
    """
    from kcli.admin.offsets.positions import export_offsets
    from kcli.text import format_count, group_text

    scope = parse_scope(topic)
    output = _form(common.output_option, apache=apache)
    deadline_ms = common.deadline_ms()
    with closing(common.connect()) as client:
        selected = find_selected(client, groups, deadline_ms)
        export = export_offsets(client, selected, scope, deadline_ms)
    env.stdout.write(_text(env, export.positions, output))
    for name, positions in export.groups.items():
        continues = "" if positions.state in ("Empty", "Dead") else "; its members continue to commit"
        env.report(
            f"{group_text(name)} ({positions.state}): {format_count(len(positions.offsets), 'partition')}{continues}"
        )
    return exit_status.DONE


def _form(output: str | None, *, apache: bool) -> str:
    if apache and output not in (None, "csv"):
        raise ConfigError(f"--apache writes csv and cannot be combined with --output {output}")
    if output not in (None, "json", "csv"):
        raise ConfigError(f"--output: '{output}' is not valid here; use json or csv")
    return "apache" if apache else output or "json"


def _text(env: Environment, positions: Positions, form: str) -> str:
    from kcli.admin.offsets import plan_files

    write = {
        "json": plan_files.positions_as_json,
        "csv": plan_files.positions_as_csv,
        "apache": plan_files.positions_as_apache_csv,
    }
    text = write[form](positions)
    if not env.stdout_is_terminal:
        return text
    return visible_json(text)
