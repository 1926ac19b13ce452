"""`kcli spark compact`: replace small files by larger ones."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from kcli.cli.environment import Environment
from kcli.cli.options import Common
from kcli.cli.parser import Argument, Option
from kcli.cli.spark.options import Cluster
from kcli.errors import ConfigError

if TYPE_CHECKING:
    from kcli.spark.pipelines.files.compact import Plan

COLUMNS = ["folder", "files", "bytes", "replaced", "new_files"]


def run(
    env: Environment,
    common: Common,
    cluster: Cluster,
    folder: Annotated[str, Argument(metavar="DIR", help="A folder that kcli spark export or a stream has written.")],
    target_file_size: Annotated[
        str, Option("--target-file-size", metavar="SIZE", help="Write files of about this size, like 128MB.")
    ] = "128MB",
    dry_run: Annotated[bool, Option("--dry-run", help="Only print the plan.")] = False,
) -> int:
    """Replace small files of Parquet or ORC by larger ones, in each partition folder.

    Files from three quarters of the size stay as they are. The records are those of before, sorted by topic, partition
    and offset; their number is checked before a file is replaced.

    Stop streams that write to the folder. In a folder of a stream, files are replaced up to the last list that Spark
    has compacted, every tenth batch.

    An interruption loses nothing: new files are complete before the first old one is deleted, a journal in DIR/_compact
    names both, and the next run finishes. Until then, readers may see the records of one file twice; Spark's readers of
    a stream's folder do not. Readers that have listed the old files already fail, and can be repeated.
    """
    from kcli.cli import exit_status
    from kcli.cli.output.printer import print_report
    from kcli.cli.output.report import Report
    from kcli.cli.run_plan import done_sentence, showing_outcome
    from kcli.cli.spark.session import spark_session
    from kcli.spark.pipelines.files.compact import compact, folder_of, plan_compaction
    from kcli.spark.pipelines.files.compact_files import finish_interrupted, locked
    from kcli.spark.pipelines.files.file_size import parse_size

    if cluster.remote is not None or not cluster.master.startswith("local"):
        raise ConfigError("compact renames files of this machine; use --master local[*]")
    target_bytes = parse_size("--target-file-size", target_file_size)
    path = folder_of(folder)
    if dry_run:
        plan = plan_compaction(path, target_bytes)
    else:
        with locked(path):
            if finished := finish_interrupted(path):
                env.report(f"an interrupted run was finished: {finished} new files")
            plan = plan_compaction(path, target_bytes)
            if plan.groups:
                with spark_session(env, common, cluster) as spark:
                    compact(spark, plan)
    if plan.listing.log is None and (path / "_spark_metadata").is_dir():
        env.report("the stream has not compacted its list of files yet, which it does every tenth batch")
    done = [] if dry_run or not plan.groups else [f"{plan.replaced} files of {folder}"]
    with showing_outcome(env, done_sentence("replaced", done)):
        print_report(env, Report("spark.compact", COLUMNS, [_row(folder, plan)]), common.output)
    if dry_run:
        env.report("nothing was changed")
    return exit_status.DONE


def _row(folder: str, plan: Plan) -> dict[str, Any]:
    files = plan.listing.files
    sizes = {"files": len(files), "bytes": sum(file.size for file in files)}
    return {"folder": folder, **sizes, "replaced": plan.replaced, "new_files": len(plan.groups)}
