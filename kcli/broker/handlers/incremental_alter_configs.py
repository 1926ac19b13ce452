"""IncrementalAlterConfigs (44), v0-1: single settings of topics and of the broker, kept over restarts.

Of the broker's, those can be changed that give topics their defaults (and a few whose value means nothing here); the
others are refused (42), as Apache Kafka does with those that it reads only once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kcli.broker.dynamic_config import Change, apply_changes
from kcli.broker.handlers.config_resources import Alter, alter_all
from kcli.broker.request_context import RequestContext
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
    rows = alter_all(
        broker.cluster, request.resources, _alter, AlterConfigsResourceResponse, validate_only=request.validate_only
    )
    return IncrementalAlterConfigsResponse(responses=rows)


def _alter(asked: AlterConfigsResource) -> Alter:
    changes = [Change(config.name, config.config_operation, config.value) for config in asked.configs]
    return lambda before, options, value_of: apply_changes(before, changes, options, value_of)
