"""AlterConfigs (33), v0-2: all settings of topics and of the broker at once; what is not named is not set any more.

Which settings can be changed is as for IncrementalAlterConfigs, which took this API's place (KIP-339).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kcli.broker.dynamic_config import replace_all
from kcli.broker.handlers.config_resources import Alter, alter_all
from kcli.broker.request_context import RequestContext
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
    rows = alter_all(
        broker.cluster, request.resources, _alter, AlterConfigsResourceResponse, validate_only=request.validate_only
    )
    return AlterConfigsResponse(responses=rows)


def _alter(asked: AlterConfigsResource) -> Alter:
    settings = [(config.name, config.value) for config in asked.configs]
    return lambda _before, _options, _value_of: replace_all(settings)
