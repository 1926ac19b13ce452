"""Journal: the metadata log on the disk, and the state that its records make: what is appended is applied."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from kcli.broker.cluster.features import FIRST_FEATURES
from kcli.broker.cluster.image import BROKER_CONFIG
from kcli.broker.cluster.metadata_log import MAX_BATCH_RECORDS, MetadataLog
from kcli.errors import ConfigError
from kcli.protocol import metadata_records as records

if TYPE_CHECKING:
    from kcli.broker.cluster.metadata_log import Apply
    from kcli.broker.config import BrokerConfig
    from kcli.broker.files import Files
    from kcli.clock import Clock


class Journal:
    """The log of a cluster whose only voter is here.

    `apply(record, offset)` is called with all records of the log by `replay`, and with those of each `append` after
    they are on the disk. `voters` is the newest record of voters, None without one.
    """

    def __init__(
        self,
        data_dir: str,
        files: Files,
        config: BrokerConfig,
        clock: Clock,
        *,
        apply: Apply,
        report: Callable[[str], None],
    ) -> None:
        """Open the log; errors as of `MetadataLog`. `report` gets messages for the operator."""
        self.log = MetadataLog(data_dir, files, now_wall_ms=clock.wall_ms(), report=report)
        self.is_new = self.log.end_offset == 0 and self.log.latest_snapshot is None
        self.epoch = -1
        self.voters: records.VotersRecord | None = None
        self._config = config
        self._clock = clock
        self._apply = apply
        self._report = report
        self._is_in_transaction = False
        self._leads = False
        self._snapshot_ms = clock.now_ms()

    def __repr__(self) -> str:
        return f"<Journal epoch={self.epoch} {self.log!r}>"

    def replay(self) -> None:
        """Apply the records of the log. ConfigError if it belongs to other controllers: it may lack their records."""
        electors: list[records.ElectionVoter] = []

        def apply(record: Any, offset: int) -> None:
            if isinstance(record, records.VotersRecord):
                self.voters = record
            elif isinstance(record, records.LeaderChangeMessage):
                electors[:] = record.voters
            self._apply(record, offset)

        self._is_in_transaction = self.log.replay(apply)
        ids = [voter.voter_id for voter in (self.voters.voters if self.voters is not None else electors)]
        own = self._config.node_id
        if any(id != own for id in ids):
            raise ConfigError(
                f"{self.log.directory} is the log of a quorum with the controllers {', '.join(map(str, sorted(ids)))}; "
                f"node {own} of kcli continues only a log whose only controller is node {own}"
            )

    def first_records(self) -> list[Any]:
        """Return the first records of a new cluster: those that a tool has formatted, or the features of ours."""
        return self.log.read_bootstrap() or [
            records.FeatureLevelRecord(name=name, feature_level=level) for name, level in FIRST_FEATURES.items()
        ]

    def first_settings(self) -> list[Any]:
        """Return the first settings of a new cluster. The ELR rules need the default that the brokers use (KIP-966)."""
        value = str(self._config.min_insync_replicas)
        return [records.ConfigRecord(resource_type=BROKER_CONFIG, name="min.insync.replicas", value=value)]

    def begin_epoch(self) -> None:
        """Elect the only voter. The log must have a `lead` before anything else is appended."""
        self.epoch = self.log.begin_epoch(self._config.node_id)

    def lead(self, quorum: Sequence[Any] = ()) -> None:
        """Begin an epoch, unless it has begun, with the control records `quorum`.

        A transaction in which the last leader has stopped is aborted.
        """
        if self.epoch < 0:
            self.begin_epoch()
        node_id = self._config.node_id
        voter = records.ElectionVoter(voter_id=node_id)
        self._append([records.LeaderChangeMessage(leader_id=node_id, voters=[voter], granting_voters=[voter]), *quorum])
        if self._is_in_transaction:
            self._append([records.AbortTransactionRecord(reason="the controller was restarted")])
        self._leads = True

    def append(self, batch: Sequence[Any]) -> None:
        """Append and apply records: all of them, or none. OSError if they cannot be written.

        The first append begins an epoch if there is none.
        """
        if not self._leads:
            self.lead()
        if len(batch) > MAX_BATCH_RECORDS:
            batch = [records.BeginTransactionRecord(), *batch, records.EndTransactionRecord()]
        self._append(batch)

    def _append(self, batch: Sequence[Any]) -> None:
        base_offset = self.log.append(batch, self.epoch, self._clock.wall_ms())
        for number, record in enumerate(batch):
            self._apply(record, base_offset + number)

    @property
    def snapshot_is_due(self) -> bool:
        """True if a snapshot must be written, by the time or the size of the records since the last one."""
        config = self._config
        age_ms = self._clock.now_ms() - self._snapshot_ms
        is_old = age_ms >= config.metadata_log_max_snapshot_interval_ms > 0
        return is_old or self.log.bytes_since_snapshot >= config.metadata_log_max_record_bytes_between_snapshots

    def write_snapshot(self, quorum: Sequence[Any], state: Iterable[Any]) -> None:
        """Write a snapshot of these records. A failure is reported; the log has all records."""
        self._snapshot_ms = self._clock.now_ms()
        try:
            self.log.write_snapshot(quorum, state, self._clock.wall_ms())
        except OSError as error:
            self._report(f"a snapshot of the metadata cannot be written: {error.strerror or error}")

    def close(self, *, clean: bool = True) -> None:
        """Close the log; `clean` False: as a crash would leave it."""
        self.log.close(clean=clean)
