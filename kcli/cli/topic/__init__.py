"""The `kcli topic` family: list, describe, create and delete topics.

Each command is one page over `kcli.admin.topics` and `kcli.admin.configs`.

**Non-obvious**

- The failure of one topic is a row with an error; the others are still done. `delete` is the exception: if a topic does
  not exist, nothing is deleted.
- Requests for metadata never create a topic (`Common.config` turns automatic creation off).
- A name that is not valid for a topic has the status of a missing topic (3), except for `create`.
"""
