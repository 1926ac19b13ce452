"""AlterConfigs (33), v0-2: all settings of topics and of the broker at once; what is not named is not set any more.

Which settings can be changed is as for IncrementalAlterConfigs, which took this API's place (KIP-339).
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from kcli.broker.alterations import replaced
from kcli.broker.handlers.alter_resource import alter_resource
from kcli.broker.handlers.refusal import reason
from kcli.broker.request_context import RequestContext
from kcli.error_codes import ErrorCode
from kcli.errors import BrokerError
from kcli.protocol.messages.alter_configs import (
    AlterConfigsRequest,
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    AlterConfigsResponse,
)

if TYPE_CHECKING:
    from kcli.broker.broker import Broker


def handle(broker: Broker, request: AlterConfigsRequest, context: RequestContext) -> AlterConfigsResponse:
    """A result per resource; a resource that comes twice is refused."""
    times = Counter((one.resource_type, one.resource_name) for one in request.resources)
    responses = []
    for one in request.resources:
        row = AlterConfigsResourceResponse(
            error_message=None, resource_type=one.resource_type, resource_name=one.resource_name
        )
        try:
            if times[one.resource_type, one.resource_name] > 1:
                raise BrokerError(ErrorCode.INVALID_REQUEST, "The resource is in the request more than once")
            _alter(broker, one, request.validate_only)
        except BrokerError as error:
            row.error_code, row.error_message = error.code, reason(error)
        responses.append(row)
    return AlterConfigsResponse(responses=responses)


def _alter(broker: Broker, asked: AlterConfigsResource, validate_only: bool) -> None:
    settings = [(config.name, config.value) for config in asked.configs]
    alter_resource(
        broker.cluster,
        asked.resource_type,
        asked.resource_name,
        lambda _before, _options, _value_of: replaced(settings),
        validate_only,
    )
