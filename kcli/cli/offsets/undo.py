"""`kcli offsets undo`: restore committed offsets that a command changed."""

from kcli.cli.environment import Environment
from kcli.cli.options import Common
from kcli.cli.undo.restore import UndoOptions, restore


def run(env: Environment, common: Common, options: UndoOptions) -> int:
    """Restore the offsets, leader epochs and metadata that groups had committed before an --execute.

    Without --execute the command only shows the plan. An offset that was not committed before is deleted again; a
    partition whose topic was deleted or recreated is skipped, and WHY says so. Refusals and statuses are those of `kcli
    offsets reset`. A change that was interrupted can be undone too.

    Every --execute of an offsets command, and of `kcli group delete`, saves the offsets that it changes under
    $XDG_STATE_HOME/kcli/snapshots, by default ~/.local/state/kcli/snapshots. An undo does so too, and can be undone by
    its id. A line on stderr names the change that is undone, its groups and its age: --last is the last change that was
    made on this machine.
    """
    return restore(env, common, options, "offsets")
