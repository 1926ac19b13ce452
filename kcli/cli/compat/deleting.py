"""`--delete` and `--delete-offsets`: groups deleted, or what they have committed forgotten."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kcli.cli import exit_status
from kcli.cli.compat.problems import java, words_of
from kcli.cli.compat.scope import parse_partitions
from kcli.cli.compat.tables import MISSING, shown, table
from kcli.error_codes import ErrorCode
from kcli.errors import BrokerError, KcliError
from kcli.structs import TopicPartition

if TYPE_CHECKING:
    from kcli.cli.compat.session import Session

_OF_THE_GROUP = {
    ErrorCode.INVALID_GROUP_ID,
    ErrorCode.GROUP_ID_NOT_FOUND,
    ErrorCode.GROUP_AUTHORIZATION_FAILED,
    ErrorCode.NON_EMPTY_GROUP,
}
_OF_PARTITIONS = {
    ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC,
    ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
}
_WHOLE_TOPIC = -1


def delete_them(session: Session) -> int:
    """Delete groups; those with members stay, and the others go."""
    from kcli.admin.groups.deletion import delete_groups

    found = delete_groups(session.client, session.groups(), session.deadline_ms)
    gone = ", ".join(f"'{shown(name)}'" for name in sorted(found.values))
    if not found.errors:
        session.print(f"Deletion of requested consumer groups ({gone}) was successful.\n")
        return exit_status.DONE
    session.print_error("Deletion of some consumer groups failed:")
    for name in sorted(found.errors):
        session.print(f"* Group '{shown(name)}' could not be deleted due to: {java(found.errors[name])}\n")
    if found.values:
        session.print(f"\nThese consumer groups were deleted successfully: {gone}\n")
    return exit_status.status_of_all(found.errors.values())


def delete_offsets_of(session: Session) -> int:
    """Forget the committed offsets of one group in some topics; a topic that it reads now keeps its own."""
    from kcli.admin.offsets.deletion import delete_offsets

    group = session.given.value("group") or ""
    texts = list(dict.fromkeys(session.given.values("topic")))
    wanted = {tp for text in texts if ":" in text for tp in parse_partitions(text)}
    outcomes: dict[TopicPartition, KcliError | None] = {}
    whole = [text for text in texts if ":" not in text]
    topics = session.client.topics_metadata(whole, session.deadline_ms).topics if whole else {}
    for name in whole:
        if topics[name].error:
            outcomes[TopicPartition(name, _WHOLE_TOPIC)] = BrokerError(topics[name].error, topic=name)
        wanted.update(TopicPartition(name, number) for number in topics[name].partitions)
    found = delete_offsets(session.client, group, wanted, session.deadline_ms)
    _say_outcome(session, group, list(found.errors.values()))
    outcomes |= {tp: found.errors.get(tp) for tp in wanted}
    rows = [
        (
            shown(tp.topic),
            MISSING if tp.partition == _WHOLE_TOPIC else str(tp.partition),
            f"Error: {java(error)}" if error is not None else "Successful",
        )
        for tp, error in sorted(outcomes.items(), key=lambda item: f"{item[0].topic}{item[0].partition}")
    ]
    session.print("\n" + table(("TOPIC", "PARTITION", "STATUS"), rows, (15, 10, 15), {0}))
    return exit_status.status_of_all(outcomes.values())


def _say_outcome(session: Session, group: str, errors: list[KcliError]) -> None:
    """What the broker made of the request as a whole. A topic that it was not even asked about is not part of that."""
    first = errors[0] if errors else None
    code = first.code if isinstance(first, BrokerError) else None
    if first is None:
        session.print(f"Request succeeded for deleting offsets from group {shown(group)}.\n")
    elif code in _OF_THE_GROUP:
        session.print_error(words_of(first))
    elif code in _OF_PARTITIONS:
        session.print_error("Encountered some partition-level error, see the follow-up details.")
    else:
        session.print_error(f"Encountered some unknown error: {java(first)}")
