"""`kcli spark archive`: kcli as one file for the machines of Spark."""

from __future__ import annotations

from typing import Annotated

from kcli.cli import exit_status
from kcli.cli.environment import Environment
from kcli.cli.parser import Argument
from kcli.cli.spark.files import check_file, output_file


def run(
    env: Environment,
    file: Annotated[str, Argument(metavar="[FILE]", help="Write the archive to this file.")] = "kcli-spark.zip",
) -> int:
    """Write one file for `spark-submit --py-files`, with all of kcli that jobs of Spark need.

    A job calls `kcli.spark.register(spark)` and then uses the format "kcli", in batches and streams. The archive works
    without an installed kcli: the machines of Spark need Python, pyspark, pyarrow and numpy. If the archive is on the
    PYTHONPATH of the driver and the executors instead, Spark finds the format without a call of `register`.
    """
    from kcli.spark.deploy.ship import zip_kcli

    check_file("FILE", file)
    payload = zip_kcli()

    with output_file(file) as archive:
        archive.write(payload)
    env.report(f"{len(payload):,} bytes in {file}")
    return exit_status.DONE
