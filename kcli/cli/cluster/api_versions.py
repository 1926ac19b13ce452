"""`kcli cluster api-versions`: the API versions of each broker, and the version that kcli uses."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing
from typing import TYPE_CHECKING, Annotated

from kcli.cli import exit_status
from kcli.cli.environment import Environment
from kcli.cli.options import Common
from kcli.cli.parser import Option
from kcli.errors import ConfigError

if TYPE_CHECKING:
    from kcli.admin.cluster import NodeVersions, VersionRange
    from kcli.cli.output.report import Item
    from kcli.structs import Node

COLUMNS = ["nodes", "api", "key", "broker", "kcli", "used"]


def run(
    env: Environment,
    common: Common,
    node: Annotated[int | None, Option("--node", metavar="ID", help="Show this broker only.")] = None,
) -> int:
    """Show the versions of every API: of the brokers, of kcli, and the version that is used.

    Brokers with equal versions share a row. A dash means that the broker or kcli does not have the API, or that they
    have no version in common.
    """
    from kcli.admin.cluster import api_versions, own_versions
    from kcli.cli.output.printer import print_report
    from kcli.cli.output.report import Report, error_field

    ours = own_versions()
    deadline_ms = common.deadline_ms()
    with closing(common.connect()) as client:
        nodes = _chosen(client.topics_metadata([], deadline_ms).nodes, node)
        answers = api_versions(client, nodes, deadline_ms)
    items: list[Item] = []
    for broker in nodes:
        if broker in answers.errors:
            items.append({"node": broker.id, "error": error_field(answers.errors[broker])})
        else:
            versions = answers.values[broker]
            items.append({"node": broker.id, "features": versions.features, "apis": _apis(versions, ours)})
    print_report(env, Report("cluster.api-versions", COLUMNS, items, _rows(items)), common.output)
    return exit_status.status_of_all(answers.errors.values())


def _chosen(nodes: Mapping[int, Node], wanted: int | None) -> list[Node]:
    if wanted is not None and wanted not in nodes:
        raise ConfigError(f"--node: there is no broker {wanted}; the brokers are {', '.join(map(str, sorted(nodes)))}")
    return [node for node in sorted(nodes.values()) if wanted in (None, node.id)]


def _apis(answer: NodeVersions, ours: dict[int, VersionRange]) -> list[Item]:
    from kcli.admin.cluster import highest_common
    from kcli.protocol.registry import api_name

    return [
        {
            "api": api_name(key),
            "key": key,
            "broker": _range(answer.apis.get(key)),
            "kcli": _range(ours.get(key)),
            "used": highest_common(ours.get(key), answer.apis.get(key)),
        }
        for key in sorted({*answer.apis, *ours})
    ]


def _range(versions: VersionRange | None) -> Item | None:
    return None if versions is None else {"min": versions.first, "max": versions.last}


def _rows(items: list[Item]) -> list[Item]:
    """Return one row per API, shared by brokers with equal versions, and one per broker that failed."""
    nodes_by_row: dict[tuple[object, ...], list[int]] = {}
    for item in items:
        for api in item.get("apis", ()):
            row = (api["api"], api["key"], _text(api["broker"]), _text(api["kcli"]), api["used"])
            nodes_by_row.setdefault(row, []).append(item["node"])
    rows: list[Item] = [dict(zip(COLUMNS, (nodes, *row), strict=True)) for row, nodes in nodes_by_row.items()]
    rows.sort(key=lambda row: (row["key"], row["nodes"]))
    return rows + [{"nodes": [item["node"]], "error": item["error"]} for item in items if "error" in item]


def _text(versions: Item | None) -> str | None:
    return None if versions is None else f"{versions['min']}-{versions['max']}"
