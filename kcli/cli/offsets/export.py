"""`kcli offsets export`: positions of groups as a file, to be committed again later or elsewhere."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING, Annotated

from kcli.cli import exit_status
from kcli.cli.environment import Environment
from kcli.cli.group.selection import AllGroups, GroupNames, Match
from kcli.cli.options import Common
from kcli.cli.parser import Option
from kcli.errors import ConfigError, NotFound

if TYPE_CHECKING:
    from kcli.admin.offsets.plan_files import Positions
    from kcli.cli.offsets.positions import GroupPositions
    from kcli.structs import OffsetAndMetadata, TopicPartition


def run(
    env: Environment,
    common: Common,
    group: GroupNames = None,
    all_groups: AllGroups = False,
    match: Match = None,
    topic: Annotated[
        list[str] | None,
        Option("--topic", "-t", metavar="TOPIC[:P,P]", help="Only this topic, or these partitions; repeatable."),
    ] = None,
    apache: Annotated[
        bool, Option("--apache", help="Lines for kafka-consumer-groups --from-file; without epochs and notes.")
    ] = False,
) -> int:
    """Write what groups have committed: offsets, leader epochs and notes, as json, or with --output csv.

    `kcli offsets apply` and `kcli offsets reset --from-file` take it. It is all or nothing: if anything of it cannot be
    read, nothing is written on standard output, and the status is not 0. A group that still reads moves on: standard
    error says which do. With --all and --match share groups are left out, since they have no committed offsets.
    """
    from kcli.admin.groups.model import SHARE
    from kcli.admin.offsets.inspection import check_cluster
    from kcli.admin.offsets.plan_files import Positions
    from kcli.cli.group.selection import check_selection, select_groups
    from kcli.cli.offsets.positions import check_scope, read_positions
    from kcli.text import parse_topics

    found = check_selection(group or (), match, every=all_groups)
    scope = parse_topics(topic) if topic else None
    output = _form(common.output_option, apache=apache)
    deadline_ms = common.deadline_ms()
    with closing(common.connect()) as client:
        selected = select_groups(client, group or (), found, deadline_ms)
        for error in selected.unheard.values():
            raise error
        kinds = {name: kind for name, kind in selected.groups.items() if kind != SHARE}
        if not kinds:
            raise NotFound("there is no such group" if found or group else "there are no groups")
        groups = read_positions(client, kinds, scope, deadline_ms)
        check_cluster(client, None, deadline_ms)  # so that the file says where it was made
        cluster_id = client.metadata.cluster.cluster_id
    check_scope((tp for positions in groups.values() for tp in positions.offsets), scope, "there is")
    offsets: dict[tuple[str | None, TopicPartition], OffsetAndMetadata] = {
        (name, tp): at for name, positions in groups.items() for tp, at in positions.offsets.items()
    }
    if not offsets:
        raise NotFound("nothing is committed")
    env.stdout.write(_text(env, Positions(offsets, True, cluster_id, env.clock.wall_ms()), output))
    _tell(env, groups)
    return exit_status.DONE


def _form(output: str | None, *, apache: bool) -> str:
    if apache and output not in (None, "csv"):
        raise ConfigError(f"--apache is a kind of csv, not {output}")
    if output not in (None, "json", "csv"):
        raise ConfigError(f"an export is json or csv, not {output}")
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
    from kcli.cli.output.escapes import visible_json

    return visible_json(text)


def _tell(env: Environment, groups: dict[str, GroupPositions]) -> None:
    from kcli.text import format_count

    for name, positions in groups.items():
        moves = "" if positions.state in ("Empty", "Dead") else "; its members go on committing"
        env.say(f"{name} ({positions.state}): {format_count(len(positions.offsets), 'partition')}{moves}")
