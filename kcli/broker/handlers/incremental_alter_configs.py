"""IncrementalAlterConfigs (44), v0-1: single settings of topics and of the broker, kept over restarts.

Of the broker's, those can be changed that give topics their defaults (and a few whose value means nothing here); the
others are refused (42), as Apache Kafka does with those that it reads only once.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from kcli.broker.alterations import Change, altered
from kcli.broker.handlers.alter_resource import alter_resource
from kcli.broker.handlers.refusal import reason
from kcli.broker.request_context import RequestContext
from kcli.error_codes import ErrorCode
from kcli.errors import BrokerError
from kcli.protocol.messages.incremental_alter_configs import (
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)

if TYPE_CHECKING:
    from kcli.broker.broker import Broker


def handle(
    broker: Broker, request: IncrementalAlterConfigsRequest, context: RequestContext
) -> IncrementalAlterConfigsResponse:
    """A result per resource: all its changes or none; a resource that comes twice is refused."""
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
    return IncrementalAlterConfigsResponse(responses=responses)


def _alter(broker: Broker, asked: AlterConfigsResource, validate_only: bool) -> None:
    changes = [Change(config.name, config.config_operation, config.value) for config in asked.configs]
    alter_resource(
        broker.cluster,
        asked.resource_type,
        asked.resource_name,
        lambda before, options, value_of: altered(before, changes, options, value_of),
        validate_only,
    )
