"""AlterConfigs (33), v0-2: replace all overrides of topics, groups and the broker.

The API is superseded by IncrementalAlterConfigs (KIP-339); the same settings can be changed. Deliberately missing:
broker loggers, which have no settings here (40).
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from kcli.broker.cluster.decide.config_resources import Alter, alter_resources
from kcli.broker.cluster.dynamic_config import replace_all
from kcli.broker.serving.request_context import RequestContext
from kcli.protocol.acls import AclOperation
from kcli.protocol.messages.alter_configs import (
    AlterConfigsRequest,
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    AlterConfigsResponse,
)

if TYPE_CHECKING:
    from kcli.broker.cluster.decide.parts import Parts


def handle(parts: Parts, request: AlterConfigsRequest, context: RequestContext) -> AlterConfigsResponse:
    """Return a result per resource; a duplicate resource is refused."""
    rows = alter_resources(
        parts.cluster,
        request.resources,
        _alter,
        AlterConfigsResourceResponse,
        partial(parts.authorizer.allows, context, AclOperation.ALTER_CONFIGS),
        validate_only=request.validate_only,
    )
    return AlterConfigsResponse(responses=rows)


def _alter(resource: AlterConfigsResource) -> Alter:
    settings = [(config.name, config.value) for config in resource.configs]
    return lambda _current, _options, _value_of: replace_all(settings)
