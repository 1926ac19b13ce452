"""Generated readers of long arrays: the same values and the same errors as of short ones."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from kcli.errors import ProtocolError
from kcli.protocol import compiler
from kcli.protocol.codec import decode, encode, is_flexible
from kcli.protocol.messages.list_groups import ListedGroup, ListGroupsResponse
from kcli.protocol.messages.metadata import MetadataResponse
from kcli.protocol.messages.offset_fetch import (
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopics,
)
from kcli.protocol.wire import Message
from tests.protocol.audit import our_messages
from tests.protocol.golden import goldens_of

every_message = pytest.mark.parametrize("cls", our_messages(), ids=lambda cls: cls.__name__)


def always(monkeypatch: pytest.MonkeyPatch, *, in_bulk: bool) -> None:
    monkeypatch.setattr(compiler, "BULK_THRESHOLD", 0 if in_bulk else 1 << 30)


def read(cls: type[Message], body: bytes, version: int) -> Message | tuple[str, dict[str, object]]:
    try:
        return decode(cls, body, version)
    except ProtocolError as error:
        return error.message, error.evidence


@every_message
def test_golden_bodies_are_decoded_the_same_in_bulk(cls: type[Message], monkeypatch: pytest.MonkeyPatch) -> None:
    for golden in goldens_of(cls):
        always(monkeypatch, in_bulk=False)
        alone = decode(cls, golden.body, golden.version)
        always(monkeypatch, in_bulk=True)
        assert decode(cls, golden.body, golden.version) == alone


def damaged(body: bytes) -> Iterator[bytes]:
    """Yield the body truncated at each byte, and with each byte changed: lengths, counts, characters, tags."""
    for at in range(len(body)):
        yield body[:at]
        for byte in (0x00, 0x03, 0x7F, 0xFF):
            yield body[:at] + bytes([byte]) + body[at + 1 :]


@pytest.mark.parametrize("cls", [OffsetFetchResponse, MetadataResponse], ids=lambda cls: cls.__name__)
def test_damage_is_the_same_error_in_bulk(cls: type[Message], monkeypatch: pytest.MonkeyPatch) -> None:
    goldens = goldens_of(cls)
    classic = [golden for golden in goldens if not is_flexible(cls, golden.version)]
    for golden in (classic[-2], goldens[-2]):
        for body in damaged(golden.body):
            always(monkeypatch, in_bulk=False)
            alone = read(cls, body, golden.version)
            always(monkeypatch, in_bulk=True)
            assert read(cls, body, golden.version) == alone


def test_strings_of_every_length_are_decoded_in_long_arrays() -> None:
    """Compact lengths take one byte up to 126; empty and null strings differ."""
    notes = ["", None, "é", *("x" * size for size in (1, 125, 126, 127, 128, 300, 20_000))] * 20
    partitions = [
        OffsetFetchResponsePartitions(partition_index=number, committed_offset=number * 2**33, metadata=note)
        for number, note in enumerate(notes)
    ]
    topics = [OffsetFetchResponseTopics(name="orders", partitions=partitions)]
    answer = OffsetFetchResponse(groups=[OffsetFetchResponseGroup(group_id="billing", topics=topics)])
    assert decode(OffsetFetchResponse, encode(answer, 9), 9) == answer


@pytest.mark.parametrize("version", [0, 3, 5])
def test_fields_that_a_version_lacks_have_their_defaults_in_long_arrays(version: int) -> None:
    groups = [ListedGroup(group_id=f"group-{number}", protocol_type="consumer") for number in range(200)]
    answer = ListGroupsResponse(groups=groups)
    assert decode(ListGroupsResponse, encode(answer, version), version) == answer


def test_an_error_in_a_long_array_names_the_element() -> None:
    groups = [ListedGroup(group_id=f"group-{number:03}") for number in range(200)]
    body = encode(ListGroupsResponse(groups=groups), 0)
    with pytest.raises(ProtocolError) as caught:
        decode(ListGroupsResponse, body.replace(b"group-150", b"group-15\xff"), 0)
    assert caught.value.evidence["field"] == "groups[150].group_id"


def test_an_error_in_one_of_many_short_arrays_names_the_element() -> None:
    partitions = [OffsetFetchResponsePartitions(partition_index=n, metadata=f"note-{n}") for n in range(3)]
    groups = [
        OffsetFetchResponseGroup(
            group_id=f"group-{n:03}", topics=[OffsetFetchResponseTopics(name=f"topic-{n:03}", partitions=partitions)]
        )
        for n in range(200)
    ]
    answer = OffsetFetchResponse(groups=groups)
    body = encode(answer, 9)
    assert decode(OffsetFetchResponse, body, 9) == answer
    at = body.index(b"note-1", body.index(b"group-150"))
    with pytest.raises(ProtocolError) as caught:
        decode(OffsetFetchResponse, body[:at] + b"\xff" + body[at + 1 :], 9)
    assert caught.value.evidence["field"] == "groups[150].topics[0].partitions[1].metadata"
