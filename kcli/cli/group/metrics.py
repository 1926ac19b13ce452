"""`kcli group metrics`: serve the lag of groups to Prometheus. Never joins, never commits."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing, suppress
from threading import Event
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

from kcli.cli import exit_status
from kcli.cli.environment import Environment, StopSignals
from kcli.cli.group.openmetrics import MetricOptions, add_survey
from kcli.cli.group.selection import GroupSelection, LagOptions, find_selected
from kcli.cli.options import Common, check_interval
from kcli.cli.output.openmetrics import LISTEN, Families, metrics_served, parse_listen
from kcli.cli.parser import Option
from kcli.errors import BrokerError, KcliError, WakeupError

if TYPE_CHECKING:
    from kcli.admin.groups.lag_metrics import LagMetrics
    from kcli.client.consumer_network_client import ConsumerNetworkClient

INTERVAL_S = 30.0
# Prometheus gives up a scrape after 10 seconds, unless it is configured otherwise.
_FIRST_SURVEY_S = 9.0


def run(
    env: Environment,
    common: Common,
    groups: GroupSelection,
    *,
    listen: Annotated[
        str, Option("--listen", metavar="HOST:PORT", help="Serve on this address, without encryption and passwords.")
    ] = LISTEN,
    interval: Annotated[
        float, Option("--interval", metavar="SECONDS", help="Survey the groups every N seconds.")
    ] = INTERVAL_S,
    metric: MetricOptions,
    measure: LagOptions,
) -> int:
    """Serve the lag of groups to Prometheus, at http://HOST:PORT/metrics, until Ctrl-C or SIGTERM.

    The groups are surveyed once per --interval, however many scrapes arrive; a scrape gets the last survey. If the
    cluster cannot be reached, kcli_up is 0, the metrics of groups are absent, and the next survey tries again; a line
    on stderr reports the failure, and one its end. If the first survey is refused, for example because of a wrong
    password, the command ends with status 4.

    Metrics: kcli_up, kcli_survey_timestamp_seconds, kcli_failed_brokers; for each group kcli_group_up, kcli_group_info,
    kcli_group_members, kcli_group_unknown_partitions, kcli_group_beyond_end_partitions. The others have
    kafka-lag-exporter's names and labels, and with --metric-names kminion these:

    \b
    kafka-lag-exporter                        kminion
    kcli_up                                   kminion_exporter_up
    kcli_group_members                        kminion_kafka_consumer_group_members
    kcli_group_info                           kminion_kafka_consumer_group_info
    kafka_consumergroup_group_lag             kminion_kafka_consumer_group_topic_partition_lag
    kafka_consumergroup_group_topic_sum_lag   kminion_kafka_consumer_group_topic_lag
    kafka_partition_latest_offset             kminion_kafka_topic_partition_high_water_mark
    kafka_partition_earliest_offset           kminion_kafka_topic_partition_low_water_mark
    kafka_consumergroup_group_offset          (the same)
    kafka_consumergroup_group_lag_seconds     (the same)
    kafka_consumergroup_group_max_lag         (the same)
    kafka_consumergroup_group_max_lag_seconds (the same)
    kafka_consumergroup_group_sum_lag         (the same)
    """
    check_interval(interval)
    address = parse_listen(listen)
    make = metric.maker(common)
    config = measure.config(common)
    timeout_ms = min(common.timeout_ms, interval * 1000)
    wanted = Wanted(groups, int(config.reads_committed), not measure.no_time_lag, timeout_ms)
    with closing(common.connect(config)) as client, StopSignals(client.wakeup) as signals:
        surveyor, page = Surveyor(env, client, wanted, make), Page()
        with metrics_served(page, address, env), suppress(WakeupError):
            while not signals.requested:
                began_ms = env.clock.now_ms()
                page.show(surveyor.survey())
                client.sleep(max(0.0, began_ms + interval * 1000 - env.clock.now_ms()))
    return exit_status.DONE


class Wanted(NamedTuple):
    """The groups to survey, the end of the log, whether records are read, and the time limit of a survey."""

    groups: GroupSelection
    isolation_level: int
    time_lag: bool
    timeout_ms: float


class Surveyor:
    """Surveys the groups and reports on stderr when the cluster is lost and when it is back."""

    def __init__(
        self, env: Environment, client: ConsumerNetworkClient, wanted: Wanted, make: Callable[[], LagMetrics]
    ) -> None:
        self._env = env
        self._client = client
        self._wanted = wanted
        self._make = make
        self._failure: str | None = None
        self._last_ms: int | None = None

    def survey(self) -> Families:
        """Return the metrics of the groups now. A refusal of the first survey is raised."""
        from kcli.admin.groups.survey import survey_groups

        metrics, client, wanted = self._make(), self._client, self._wanted
        deadline_ms = client.clock.now_ms() + wanted.timeout_ms
        try:
            selected = find_selected(client, wanted.groups, deadline_ms)
            level, time_lag = wanted.isolation_level, wanted.time_lag
            surveys = survey_groups(client, selected.groups, deadline_ms, isolation_level=level, time_lag=time_lag)
            failed = selected.failures(surveys)
            if failed and not surveys.values and not any(isinstance(error, BrokerError) for error in failed):
                raise failed[0]
        except WakeupError:
            raise
        except KcliError as error:
            self._lost(error)
            metrics.add_cluster(up=False, survey_s=None if self._last_ms is None else self._last_ms / 1000)
        else:
            self._last_ms = client.clock.wall_ms()
            self._report(None)
            add_survey(metrics, self._last_ms, selected, surveys)
        return Families(metrics.metrics)

    def _lost(self, error: KcliError) -> None:
        if self._last_ms is None and exit_status.status_of(error) == exit_status.REFUSED:
            raise error
        self._report(error.message)

    def _report(self, failure: str | None) -> None:
        if (failure is None) != (self._failure is None):
            self._env.report(f"kcli: {failure}" if failure else "kcli: the cluster is reachable again")
        self._failure = failure


class Page:
    """The metrics that scrapes get. The main thread replaces them, the threads of the server read them."""

    def __init__(self) -> None:
        self._families: Families | None = None
        self._is_ready = Event()

    def show(self, families: Families) -> None:
        """Replace the metrics."""
        self._families = families
        self._is_ready.set()

    def collect(self) -> list[Any]:
        """Return the families of the last survey; wait for the first one. The interface of prometheus_client."""
        self._is_ready.wait(_FIRST_SURVEY_S)
        families = self._families
        return [] if families is None else families.collect()
