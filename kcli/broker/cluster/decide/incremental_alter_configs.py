"""IncrementalAlterConfigs (44), v0-1: change single settings of topics, groups and the broker (KIP-339).

Changes survive restarts. Of the broker's settings those can be changed that are defaults of topic settings, and a few
that have no effect here; the others are refused (42), as Apache Kafka refuses its static settings. Deliberately
missing: broker loggers, which have no settings here (40).
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from kcli.broker.cluster.decide.config_resources import Alter, alter_resources
from kcli.broker.cluster.dynamic_config import Change, apply_changes
from kcli.broker.serving.request_context import RequestContext
from kcli.protocol.acls import AclOperation
from kcli.protocol.messages.incremental_alter_configs import (
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)

if TYPE_CHECKING:
    from kcli.broker.cluster.decide.parts import Parts


def handle(
    parts: Parts, request: IncrementalAlterConfigsRequest, context: RequestContext
) -> IncrementalAlterConfigsResponse:
    """Return a result per resource: all its changes or none; a duplicate resource is refused."""
    rows = alter_resources(
        parts.cluster,
        request.resources,
        _alter,
        AlterConfigsResourceResponse,
        partial(parts.authorizer.allows, context, AclOperation.ALTER_CONFIGS),
        validate_only=request.validate_only,
    )
    return IncrementalAlterConfigsResponse(responses=rows)


def _alter(resource: AlterConfigsResource) -> Alter:
    changes = [Change(config.name, config.config_operation, config.value) for config in resource.configs]
    return lambda current, options, value_of: apply_changes(current, changes, options, value_of)
