"""Changes of existing topics: partitions and settings (`alterations`), and the deletion of old records (`truncation`).

Settings of brokers, groups and client metrics are altered in the same way as those of topics.

`plan_alterations` and `plan_truncation` read the facts and return a `kcli.admin.plan.Plan`, which is data; the
functions that decide are pure. The brokers check an alteration when it is planned, without making it.
`apply_alterations` and `apply_truncation` check the facts again and make the changes. The settings before each change
are saved in a snapshot, and `plan_setting_undo` plans their return.

There is no thread.

**Non-obvious**

- Partitions cannot be removed and records cannot be restored, so an undo concerns settings only.
- A setting that is deleted from a topic has the value of the broker again; the plan shows that value.
- Secrets of brokers are refused: brokers do not return the old value, and a plan and a snapshot would show the new one.
- The records that a truncation deletes are counted by offsets: an upper bound in compacted and transactional topics.
"""
