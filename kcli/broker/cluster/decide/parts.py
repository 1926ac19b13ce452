"""Parts: what the decision about a client's request reads and changes, all of one draft."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kcli.broker.cluster.decide.draft import Draft
    from kcli.broker.cluster.decide.draft_cluster import DraftCluster
    from kcli.broker.cluster.decide.security_drafts import DraftAcls, DraftCredentials
    from kcli.broker.config import BrokerConfig
    from kcli.broker.quotas import ClientQuotas
    from kcli.broker.security.allow_all import AnyAuthorizer
    from kcli.broker.security.delegation_tokens import DelegationTokens
    from kcli.broker.serving.request_context import RequestContext


class Parts:
    """Topics, settings, ACLs, users and tokens of a draft, and the rights and quotas of the client."""

    def __init__(
        self,
        draft: Draft,
        cluster: DraftCluster,
        authorizer: AnyAuthorizer,
        client_quotas: ClientQuotas | None,
        settings: BrokerConfig,
        protocol_of: Callable[[RequestContext], str],
    ) -> None:
        """`protocol_of` returns the security protocol of the client's connection."""
        self.cluster = cluster
        self.authorizer = authorizer
        self.client_quotas = client_quotas
        self.protocol_of = protocol_of
        self._settings = settings
        self._draft = draft

    @property
    def acls(self) -> DraftAcls:
        """The ACLs."""
        from kcli.broker.cluster.decide.security_drafts import DraftAcls

        return DraftAcls(self._draft)

    @property
    def credentials(self) -> DraftCredentials:
        """The SCRAM users."""
        from kcli.broker.cluster.decide.security_drafts import DraftCredentials

        return DraftCredentials(self._draft)

    @cached_property
    def tokens(self) -> DelegationTokens:
        """The delegation tokens."""
        from kcli.broker.cluster.decide.security_drafts import TokenRecords
        from kcli.broker.security.delegation_tokens import DelegationTokens

        return DelegationTokens(TokenRecords(self._draft), self._settings)
