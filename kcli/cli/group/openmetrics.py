"""Lag metrics: the options of the commands that print or serve them, and the survey that they show."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, NamedTuple

from kcli.cli.options import check_choice
from kcli.cli.output.openmetrics import check_package, print_metrics
from kcli.cli.parser import Option
from kcli.errors import KcliError
from kcli.text import group_text

if TYPE_CHECKING:
    from kcli.admin.groups.lag_metrics import LagMetrics
    from kcli.admin.groups.listing import SelectedGroups
    from kcli.admin.groups.survey import GroupSurvey
    from kcli.cli.environment import Environment
    from kcli.cli.options import Common
    from kcli.client.requests import Results


class MetricOptions(NamedTuple):
    """The names and labels of lag metrics."""

    metric_names: Annotated[
        str | None,
        Option(
            "--metric-names",
            metavar="kafka-lag-exporter|kminion",
            help="Use the metric names and labels of this exporter. [kafka-lag-exporter]",
        ),
    ] = None
    cluster_name: Annotated[
        str | None,
        Option(
            "--cluster-name",
            metavar="NAME",
            help="Set the label cluster_name. [the profile, else the bootstrap servers]",
        ),
    ] = None

    def maker(self, common: Common) -> Callable[[], LagMetrics]:
        """Return a maker of empty `LagMetrics`. ConfigError for a wrong option, or without prometheus_client."""
        from kcli.admin.groups.lag_metrics import LAG_EXPORTER, STYLES, LagMetrics

        style = LAG_EXPORTER if self.metric_names is None else self.metric_names
        check_choice("--metric-names", style, STYLES)
        check_package()
        profile = common.profile.applied
        cluster = self.cluster_name or (profile.name if profile is not None else common.given["bootstrap.servers"])
        return lambda: LagMetrics(style, cluster)


@contextmanager
def without_metrics(env: Environment, make: Callable[[], LagMetrics]) -> Iterator[None]:
    """Print `kcli_up 0` when the block raises a KcliError, so that old metrics are replaced, and raise it."""
    try:
        yield
    except KcliError:
        metrics = make()
        metrics.add_cluster(up=False)
        print_metrics(env, metrics.metrics)
        raise


def add_survey(metrics: LagMetrics, wall_ms: int, selected: SelectedGroups, surveys: Results[str, GroupSurvey]) -> None:
    """Add a survey that reached the cluster at a wall time in ms."""
    metrics.add_cluster(up=True, failed_brokers=len(selected.failed_brokers), survey_s=wall_ms / 1000)
    metrics.add_groups(surveys.values, surveys.errors)


def report_failures(env: Environment, selected: SelectedGroups, surveys: Results[str, GroupSurvey]) -> None:
    """Report each group and each broker that failed in one line."""
    for group, error in surveys.errors.items():
        env.report(f"kcli: {group_text(group)}: {error.message}")
    for node, error in selected.failed_brokers.items():
        env.report(f"kcli: {node}: {error.message}")
