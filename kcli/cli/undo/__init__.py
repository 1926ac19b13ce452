"""`kcli undo`, and its part in `kcli offsets undo` and `kcli topic undo`, which take snapshots of one kind only.

No threads.

**Non-obvious**

- The last change is that of the cluster to which kcli is connected, and never an undo: a second undo changes nothing.
"""
