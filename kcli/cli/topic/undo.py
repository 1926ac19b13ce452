"""`kcli topic undo`: restore the settings of topics that a command changed."""

from kcli.cli.environment import Environment
from kcli.cli.options import Common
from kcli.cli.undo.restore import UndoOptions, restore


def run(env: Environment, common: Common, options: UndoOptions) -> int:
    """Restore the settings that topics had before an --execute of `kcli topic alter`.

    Without --execute the command only shows the plan. A setting that was not set on the topic is deleted again. A topic
    that was deleted or recreated since is left as it is, and WHY says so. Partitions cannot be removed. An undo saves a
    snapshot too, and can be undone by its id.
    """
    return restore(env, common, options, "settings")
