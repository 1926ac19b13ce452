"""Uses of messages for mypy, run on this file by test_typed_use. Each ignore is an error that mypy must find."""

from uuid import UUID

from typing_extensions import assert_type

from kcli.protocol.codec import decode
from kcli.protocol.messages.fetch import FetchResponse
from kcli.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from kcli.protocol.messages.metadata import MetadataRequest, MetadataResponse
from kcli.protocol.primitives import Buffer
from kcli.protocol.wire import R, Request


def ask(request: Request[R]) -> R:
    """Return a response whose type follows from the request."""
    raise NotImplementedError


def good(body: bytes) -> None:
    """Attributes have the types of the protocol."""
    assert_type(HeartbeatRequest(group_id="g").group_instance_id, str | None)
    assert_type(ask(HeartbeatRequest()), HeartbeatResponse)
    topic = ask(MetadataRequest(topics=None)).topics[0]
    assert_type(topic.topic_id, UUID)
    assert_type(topic.partitions[0].isr_nodes, list[int])
    assert_type(decode(FetchResponse, body, 12).responses[0].partitions[0].records, Buffer | None)


def bad() -> None:
    """Use messages in invalid ways."""
    HeartbeatRequest(grup_id="g")  # type: ignore[call-arg]
    HeartbeatRequest(group_id=7)  # type: ignore[arg-type]
    HeartbeatRequest("g")  # type: ignore[call-arg]
    HeartbeatRequest().grup_id = "g"  # type: ignore[attr-defined]
    MetadataResponse(topics=None)  # type: ignore[arg-type]
    ask(HeartbeatResponse())  # type: ignore[arg-type]
