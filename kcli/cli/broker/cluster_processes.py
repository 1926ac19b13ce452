"""The processes of a cluster: the controller and the nodes, from their properties until a signal stops them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import TYPE_CHECKING

from kcli.cli import exit_status
from kcli.errors import ConfigError, KcliError

if TYPE_CHECKING:
    from kcli.broker.broker import Broker
    from kcli.broker.combined import CombinedBroker
    from kcli.broker.controller.controller_server import ControllerServer
    from kcli.cli.broker.supervisor import Child

# Modules that the processes load while they start and serve records.
_MODULES = (
    "kcli.broker.broker",
    "kcli.broker.config",
    "kcli.broker.controller.controller_server",
    "kcli.broker.node.node",
)
_HANDLERS = ("api_versions", "metadata", "produce", "fetch", "list_offsets", "find_coordinator")


def preload() -> None:
    """Import what the processes need, so that they share its memory after the fork."""
    for name in (*_MODULES, *(f"kcli.broker.handlers.{handler}" for handler in _HANDLERS)):
        import_module(name)


def run_controller(properties: dict[str, str], child: Child) -> int:
    """Run the controller until a signal."""
    from kcli.broker.config import BrokerConfig
    from kcli.broker.controller.controller_server import ControllerServer

    server = ControllerServer(BrokerConfig.from_properties(properties), log=child.log)
    _start(server, child)
    child.tell_ready()
    with shutting_down(server):
        server.run(lambda: child.signals.requested)
    return exit_status.DONE


def run_node(properties: dict[str, str], child: Child) -> int:
    """Run a node until a signal."""
    from kcli.broker.broker import Broker
    from kcli.broker.config import BrokerConfig

    broker = Broker(BrokerConfig.from_properties(properties), log=child.log)
    _start(broker, child)
    return serve(broker, lambda: child.signals.requested, child.tell_ready)


def _start(server: Broker | ControllerServer, child: Child) -> None:
    try:
        server.start()
    except ConfigError as error:
        raise KcliError(error.message, **error.evidence) from error
    child.signals.wake = server.wakeup
    child.tell_address(server.address)


def serve(broker: Broker | CombinedBroker, is_stopping: Callable[[], bool], on_ready: Callable[[], None]) -> int:
    """Serve until `is_stopping()`, and shut down. `on_ready` is called once, when clients are served."""
    with shutting_down(broker):
        broker.run(lambda: is_stopping() or broker.is_serving)
        if not is_stopping():
            on_ready()
            broker.run(is_stopping)
    return exit_status.DONE


@contextmanager
def shutting_down(server: Broker | CombinedBroker | ControllerServer) -> Iterator[None]:
    """Shut the server down after the block; not cleanly if that raises."""
    try:
        yield
    except BaseException:
        server.shutdown(clean=False)
        raise
    server.shutdown(clean=True)
