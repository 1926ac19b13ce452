"""Commits of Spark's position to a group, refusal of groups in use, and reading of checkpoints."""

from __future__ import annotations

import threading
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace

import pytest

from kcli.admin.offsets.checks import GroupInUse
from kcli.errors import KcliError, TimeoutExpired
from kcli.spark import commit_listener
from kcli.spark.group_commits import CommitThread, GroupCommits, Position, format_note, read_note
from kcli.spark.options import SourceOptions
from kcli.spark.stream_checkpoint import CheckpointError, last_position, local_path, position_of, positions_of_progress
from kcli.structs import TopicPartition
from tests.real_kafka import Kafka
from tests.spark.fake_lookup import options
from tests.spark.groups import committed, member

# Written by Spark 4.3.0 with its own connector.
METADATA = '{"id":"92c1a1be-445d-4e97-ab0f-2ac10ca7681e"}'
OFFSETS = 'v1\n{"batchWatermarkMs":0,"batchTimestampMs":1795252126750,"conf":{}}\n{"orders":{"0":5,"1":7}}'
QUERY = "92c1a1be-445d-4e97-ab0f-2ac10ca7681e"


def commits_to(kafka: Kafka, group: str) -> GroupCommits:
    return GroupCommits(SourceOptions({"bootstrap.servers": kafka.bootstrap_servers}), group)


def test_a_group_with_members_is_refused_with_their_names(any_kafka: Kafka) -> None:
    topic, group = any_kafka.new_topic(), any_kafka.new_name("spark")
    with closing(commits_to(any_kafka, group)) as commits:
        commits.refuse_if_in_use()  # a group that does not exist
        with (
            member(any_kafka, group, topic, "billing-7"),
            pytest.raises(GroupInUse, match=rf"group {group} is Stable with 1 member \(billing-7 on .*\); stop them"),
        ):
            commits.refuse_if_in_use()
        commits.refuse_if_in_use()  # empty now


def test_a_position_is_committed_with_its_query_id(any_kafka: Kafka) -> None:
    topic, group = any_kafka.new_topic(2), any_kafka.new_name("spark")
    at = Position({TopicPartition(topic, 0): 4, TopicPartition(topic, 1): 0}, QUERY, 3)
    with closing(commits_to(any_kafka, group)) as commits:
        assert commits.commit(at) == []
        assert committed(any_kafka, group) == {0: (4, format_note(at)), 1: (0, format_note(at))}
        assert commits.commit(at._replace(query_id="", batch=-1)) == []  # without a query id
        assert committed(any_kafka, group)[0] == (4, format_note(at))


def test_a_deleted_topic_is_reported_once_and_others_are_committed(any_kafka: Kafka) -> None:
    topic, group = any_kafka.new_topic(), any_kafka.new_name("spark")
    gone = {TopicPartition(any_kafka.new_name("gone"), number): 1 for number in range(3)}
    with closing(commits_to(any_kafka, group)) as commits:
        [failure] = commits.commit(Position({TopicPartition(topic, 0): 2, **gone}, QUERY, 0))
    assert next(iter(gone)).topic in failure
    assert failure.endswith("(and 2 more)")
    assert committed(any_kafka, group)[0][0] == 2


def test_metadata_of_other_committers_is_not_read_as_a_note() -> None:
    assert read_note(format_note(Position({}, QUERY, 12))) == (QUERY, 12)
    assert read_note("") is None
    assert read_note('{"spark":') is None
    assert read_note('{"spark":"x"}') is None


# ---- checkpoints ----


def checkpoint_at(folder: Path, done: int) -> None:
    """Create a checkpoint whose last completed batch is this one, with the next batch started."""
    (folder / "metadata").write_text(METADATA)
    batches = [str(number) for number in (done - 1, done, done + 1)]
    for log, names in (("offsets", batches), ("commits", [*batches[:2], f".{done}.crc", f".{done + 1}.tmp"])):
        (folder / log).mkdir()
        for name in names:
            (folder / log / name).write_text(OFFSETS if name == str(done) else "")


def test_the_position_is_that_of_the_last_completed_batch(tmp_path: Path) -> None:
    assert last_position(tmp_path) is None
    checkpoint_at(tmp_path, 10)
    assert last_position(tmp_path) == Position(
        {TopicPartition("orders", 0): 5, TopicPartition("orders", 1): 7}, QUERY, 10
    )


def test_sources_are_distinguished_by_their_index() -> None:
    two = OFFSETS + '\n-\n{"payments":{"0":2}}'
    assert position_of(METADATA, 0, two, source=1) is None
    assert position_of(METADATA, 0, two, source=2) == Position({TopicPartition("payments", 0): 2}, QUERY, 0)


@pytest.mark.parametrize(
    ("metadata", "offsets"),
    [
        (METADATA, "v2\n{}\n{}"),
        (METADATA, "v1\n{}"),
        (METADATA, ""),
        ("{}", OFFSETS),
        ("", OFFSETS),
        (METADATA, 'v1\n{}\n{"logOffset":3}'),
    ],
)
def test_an_unknown_checkpoint_layout_is_an_error(metadata: str, offsets: str) -> None:
    with pytest.raises(KcliError, match="checkpoint"):
        position_of(metadata, 0, offsets)


def test_a_missing_checkpoint_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "commits").mkdir()
    (tmp_path / "commits" / "0").write_text("v1")
    with pytest.raises(CheckpointError, match=r"cannot read .*metadata"):
        last_position(tmp_path)


@pytest.mark.parametrize(
    ("location", "path"),
    [("/a/b", Path("/a/b")), ("file:/a/b%20c", Path("/a/b c")), ("file:///a", Path("/a")), ("s3a://bucket/a", None)],
)
def test_only_local_checkpoints_are_read(location: str, path: Path | None) -> None:
    assert local_path(location) == path


def test_a_progress_event_has_positions_of_kafka_sources_only() -> None:
    ours = {"endOffset": '{"orders":{"0":5}}'}  # a Python source's offset is text in the event, the connector's is JSON
    theirs = {"endOffset": {"orders": {"1": 6}}}
    others = [{"endOffset": None}, {"endOffset": {"logOffset": 3}}, {"endOffset": "12"}, {}]
    event = {"id": QUERY, "batchId": 4, "sources": [ours, *others, theirs]}
    assert positions_of_progress(event) == {
        0: Position({TopicPartition("orders", 0): 5}, QUERY, 4),
        5: Position({TopicPartition("orders", 1): 6}, QUERY, 4),
    }


# ---- the thread that commits ----


class Scripted:
    """Fake commits that fail as scripted, and record the requests."""

    group = "g"

    def __init__(self, *outcomes: list[str] | KcliError) -> None:
        self.outcomes = list(outcomes)
        self.batches: list[int] = []
        self.asked = threading.Condition()
        self.closed = False

    def commit(self, position: Position) -> list[str]:
        with self.asked:
            self.batches.append(position.batch)
            self.asked.notify_all()
        outcome = self.outcomes.pop(0) if self.outcomes else []
        if isinstance(outcome, KcliError):
            raise outcome
        return outcome

    def wait_for(self, count: int) -> None:
        with self.asked:
            assert self.asked.wait_for(lambda: len(self.batches) >= count, 10), self.batches

    def close(self) -> None:
        self.closed = True


def at(batch: int, query: str = QUERY) -> Position:
    return Position({}, query, batch)


def test_the_last_position_is_committed_before_the_end() -> None:
    commits = Scripted()
    work = CommitThread(commits, pytest.fail)  # type: ignore[arg-type]
    work.put(at(7))
    work.put(at(6))  # a late event of an earlier batch
    assert work.finish(10)
    assert commits.batches[-1] == 7
    assert 6 not in commits.batches
    assert commits.closed


def test_a_new_query_starts_again_from_batch_zero() -> None:
    commits = Scripted()
    work = CommitThread(commits, pytest.fail)  # type: ignore[arg-type]
    work.put(at(7))
    work.put(at(0, query="another"))
    assert work.finish(10)
    assert commits.batches[-1] == 0


def test_an_idle_query_repeats_its_commit() -> None:
    commits = Scripted()
    work = CommitThread(commits, pytest.fail, idle_s=0.01)  # type: ignore[arg-type]
    work.put(at(3))
    commits.wait_for(4)
    assert work.finish(10)
    assert set(commits.batches) == {3}


def test_commits_are_not_repeated_without_an_idle_interval() -> None:
    commits = Scripted()
    work = CommitThread(commits, pytest.fail, idle_s=0)  # type: ignore[arg-type]
    work.put(at(3))
    commits.wait_for(1)
    assert work.finish(10)
    assert commits.batches == [3]


def test_a_lasting_failure_is_reported_once_and_retried() -> None:
    trouble = TimeoutExpired("nobody answers")
    commits, message = Scripted(trouble, trouble, ["t-0: refused"], [], trouble), list[str]()
    work = CommitThread(commits, message.append, idle_s=0, retry_s=0.01)  # type: ignore[arg-type]
    work.put(at(1))
    commits.wait_for(4)  # the last attempt succeeded
    work.put(at(2))
    commits.wait_for(5)
    assert work.finish(10)
    assert [text.rpartition("the query continues: ")[2] for text in message] == [
        "nobody answers",
        "t-0: refused",
        "nobody answers",
    ]


@pytest.mark.parametrize("again", [TimeoutExpired("nobody answers"), ["t-0: refused"], []])
def test_a_failed_commit_is_retried_once_at_the_end(again: list[str] | KcliError) -> None:
    commits, message = Scripted(TimeoutExpired("nobody answers"), again), list[str]()
    work = CommitThread(commits, message.append, idle_s=0, retry_s=3_600)  # type: ignore[arg-type]
    work.put(at(1))
    commits.wait_for(1)
    assert work.finish(10) == (again == [])
    assert commits.batches == [1, 1]
    assert commits.closed
    assert message


def test_an_uncompleted_last_commit_is_reported() -> None:
    class Slow(Scripted):
        def commit(self, position: Position) -> list[str]:
            assert let.wait(10)
            return super().commit(position)

    let, commits, message = threading.Event(), Slow(), list[str]()
    work = CommitThread(commits, message.append)  # type: ignore[arg-type]
    work.put(at(1))
    assert not work.finish(0)
    assert not work.finish(0.01)
    let.set()
    assert work.finish(10)
    assert message == ["the last commit for group g was not completed within 0.01 s"]
    assert CommitThread(Scripted(), pytest.fail).finish(10)  # type: ignore[arg-type]


# ---- the option, seen from the driver ----


@pytest.mark.parametrize("result", [True, False])
def test_the_last_batch_is_committed_without_its_progress_event(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, result: bool
) -> None:
    """A process may end as soon as its query has ended, before the events of the last batch."""
    commits, run = Scripted(), SimpleNamespace(id="q", runId="r")
    monkeypatch.setattr(commit_listener, "options_of_sources", lambda _: {0: options(stream=True, commitGroup="g")})
    monkeypatch.setattr(commit_listener, "checkpoint_of", lambda _: str(tmp_path))
    monkeypatch.setattr(commit_listener, "GroupCommits", lambda *_: commits)
    committer = commit_listener.OptionCommitter(SimpleNamespace(streams=SimpleNamespace(get=lambda _: run)))  # type: ignore[arg-type]
    committer.onQueryStarted(run)
    checkpoint_at(tmp_path, 10)
    if result:
        committer.onQueryTerminated(run)
        commits.wait_for(1)
    committer.finish(10)
    assert commits.batches == [10]
    assert commits.closed
