"""The composition root of the client: from a configuration to a `ConsumerNetworkClient`."""

from __future__ import annotations

from collections.abc import Callable

from kcli.client.backoff import Backoff, uniform
from kcli.client.config import ClientConfig, parse_bootstrap
from kcli.client.connection.connections import Resolve
from kcli.client.connection.network_client import NetworkClient
from kcli.client.consumer_network_client import ConsumerNetworkClient
from kcli.client.metadata import Metadata
from kcli.clock import Clock, SystemClock
from kcli.host_names import resolve
from kcli.network.selector import Selector
from kcli.structs import ANONYMOUS

_MAX_IN_FLIGHT = 100


def connect(
    config: ClientConfig,
    clock: Clock | None = None,
    *,
    selector: Selector | None = None,
    resolve: Resolve = resolve,
    uniform: Callable[[float, float], float] = uniform,
) -> ConsumerNetworkClient:
    """Return a client with this configuration. It makes no connection before the first request; the caller closes it.

    Tests pass a manual clock, an in-memory selector, a resolver of host names, and a `uniform` that is not random.
    """
    security = None
    if config.security_protocol != "PLAINTEXT":
        from kcli.client.connection.security import ClientSecurity

        security = ClientSecurity(config)
    clock = clock or SystemClock()
    retry_backoff = Backoff(config.retry_backoff_ms, config.retry_backoff_max_ms, uniform=uniform)
    metadata = Metadata(
        parse_bootstrap(config.bootstrap_servers),
        max_age_ms=config.metadata_max_age_ms,
        backoff=retry_backoff,
        allow_auto_create=config.allow_auto_create_topics,
    )
    max_in_flight = getattr(config, "max_in_flight_requests_per_connection", _MAX_IN_FLIGHT)
    if selector is None:
        selector = Selector(clock, idle_ms=config.connections_max_idle_ms)
    network = NetworkClient(
        selector,
        metadata,
        config,
        clock,
        max_in_flight=max_in_flight,
        resolve=resolve,
        uniform=uniform,
        security=security,
    )
    principal = ANONYMOUS if security is None else security.principal
    return ConsumerNetworkClient(network, metadata, config, clock, retry_backoff, principal=principal)
