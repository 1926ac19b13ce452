"""`kcli cluster api-versions`: the API versions of each broker, and the version that kcli uses."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING, Annotated

from kcli.cli import exit_status
from kcli.cli.environment import Environment
from kcli.cli.options import Common
from kcli.cli.parser import Option
from kcli.errors import ConfigError, KcliError

if TYPE_CHECKING:
    from kcli.admin.cluster import NodeVersions, VersionRange
    from kcli.cli.output.report import Item
    from kcli.client.consumer_network_client import ConsumerNetworkClient
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
    from kcli.admin.cluster import own_versions
    from kcli.cli.output.printer import print_report
    from kcli.cli.output.report import Report, error_field

    ours = own_versions()
    items: list[Item] = []
    errors: list[KcliError] = []
    with closing(common.connect()) as client:
        for broker, answer in _ask(client, node, common.deadline_ms()):
            if isinstance(answer, KcliError):
                errors.append(answer)
                items.append({"node": broker.id, "error": error_field(answer)})
            else:
                items.append({"node": broker.id, "features": answer.features, "apis": _apis(answer, ours)})
    print_report(env, Report("cluster.api-versions", COLUMNS, items, _rows(items)), common.output)
    return exit_status.status_of_all(errors)


def _ask(
    client: ConsumerNetworkClient, wanted: int | None, deadline_ms: float
) -> list[tuple[Node, NodeVersions | KcliError]]:
    from kcli.admin.cluster import api_versions

    nodes = client.topics_metadata([], deadline_ms).nodes
    if wanted is not None and wanted not in nodes:
        raise ConfigError(f"--node: there is no broker {wanted}; the brokers are {', '.join(map(str, sorted(nodes)))}")
    answers: list[tuple[Node, NodeVersions | KcliError]] = []
    for node in sorted(nodes.values()):
        if wanted in (None, node.id):
            try:
                answers.append((node, api_versions(client, node, deadline_ms)))
            except KcliError as error:
                answers.append((node, error))
    return answers


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
