"""DescribeClientQuotas (48), v0-1: no entity has quotas. DESCRIBE_CONFIGS on the cluster is needed.

`kafka-configs.sh` asks for quotas before it lists SCRAM users. Deliberately missing: quotas, which this broker neither
has nor accepts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kcli.broker.handlers.rights import cluster_denied
from kcli.broker.request_context import RequestContext
from kcli.protocol.acls import AclOperation
from kcli.protocol.messages.describe_client_quotas import DescribeClientQuotasRequest, DescribeClientQuotasResponse

if TYPE_CHECKING:
    from kcli.broker.broker import Broker


def handle(
    broker: Broker, request: DescribeClientQuotasRequest, context: RequestContext
) -> DescribeClientQuotasResponse:
    if not broker.authorizer.allows_cluster(context, AclOperation.DESCRIBE_CONFIGS):
        error = cluster_denied(AclOperation.DESCRIBE_CONFIGS)
        return DescribeClientQuotasResponse(error_code=error.code, error_message=error.detail, entries=None)
    return DescribeClientQuotasResponse(error_message=None)
