"""The sentence for a person whose deadline passed: which address was tried, and what came of it. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from kcli.client.metadata import Metadata
from kcli.structs import Node


def explain_trouble(metadata: Metadata, last_error: Callable[[int], str | None], node: Node | None = None) -> str:
    """What keeps us from `node`, or from all nodes; "" when nothing is known to be wrong.

    A broker that answered at a bootstrap address may advertise another address that cannot be reached from here: that
    is told apart, since it is mended in the broker's `advertised.listeners`, not here.
    """
    suspects = [node] if node is not None else list(metadata.cluster.nodes.values())
    failures = _failures(suspects, last_error)
    if metadata.is_bootstrap or all(n.id < 0 for n, _ in failures):
        failures = failures or _failures(metadata.bootstrap.values(), last_error)
    if failures:
        if metadata.update_version and failures[0][0].id >= 0:
            return _advertised(failures)
        return "no broker answered at " + _listed(failures)
    if metadata.error is not None:
        return f"the cluster cannot be described: {metadata.error}"
    return ""


def _failures(nodes: Iterable[Node], last_error: Callable[[int], str | None]) -> list[tuple[Node, str]]:
    return [(node, reason) for node in nodes if (reason := last_error(node.id)) is not None]


def _advertised(failures: list[tuple[Node, str]]) -> str:
    return "; ".join(
        f"node {node.id}, which the cluster advertises as {_address(node)}, cannot be reached: {reason}"
        for node, reason in failures
    )


def _listed(failures: list[tuple[Node, str]]) -> str:
    if len(failures) == 1:
        node, reason = failures[0]
        return f"{_address(node)}: {reason}"
    return ", ".join(f"{_address(node)} ({reason})" for node, reason in failures)


def _address(node: Node) -> str:
    return f"[{node.host}]:{node.port}" if ":" in node.host else f"{node.host}:{node.port}"
