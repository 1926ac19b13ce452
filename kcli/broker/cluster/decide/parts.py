"""Parts: what the decision about a client's request reads and changes, all of one draft."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from kcli.broker.cluster.decide.draft import Draft
    from kcli.broker.cluster.decide.draft_cluster import DraftCluster
    from kcli.broker.config import BrokerConfig
    from kcli.broker.quotas import ClientQuotas
    from kcli.broker.security.allow_all import AnyAuthorizer
    from kcli.broker.serving.request_context import RequestContext


class Parts(NamedTuple):
    """A draft, its topics and settings as `cluster`, and the rights and quotas of the client.

    `settings` are those of the controller. `protocol_of` returns the security protocol of the client's connection.
    """

    draft: Draft
    cluster: DraftCluster
    authorizer: AnyAuthorizer
    client_quotas: ClientQuotas | None
    settings: BrokerConfig
    protocol_of: Callable[[RequestContext], str]
