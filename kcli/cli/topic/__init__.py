"""The `kcli topic` family: list, describe, create, alter and delete topics.

Each command is one page over `kcli.admin.topics`, `kcli.admin.configs` and `kcli.admin.topic_changes`.

**Non-obvious**

- The failure of one topic is a row with an error; the others are still done. The exceptions are
  the commands that change existing topics: if a topic does not exist, nothing is changed.
- Requests for metadata never create a topic (`Common.config` turns automatic creation off).
- A name that is not valid for a topic has the status of a missing topic (3), except for `create`.

Tests: `test_commands` tests list, describe, create and delete.
"""
