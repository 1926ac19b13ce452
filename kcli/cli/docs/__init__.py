"""Manual pages, a table for completion, files for type checkers, made from code: `python -m kcli.cli.docs [FOLDER]`.

`tree.read_tree` reads all commands from the parser's whole tree as plain data. `man`, `configuration` and `spark_page`
make a `page.Page` each, which `page` renders as troff or as plain text; `completion_table` has the table, `type_files`
those for type checkers; `__main__` writes the files. `guide.md` and `library.md` are written by hand.

No threads. Only `kcli help` imports the parts that it needs; the rest is a separate program.

**Non-obvious**

- The sources of a manual page are the docstring of the command's `run` and the help of its options. Edit these, then
  run the module; a test compares the stored files with the result.
- The examples of a page are the lines of the reference in guide.md with that command (`examples`).
- A paragraph whose first line is the character \\b is preformatted, in the help and in the page.
- The placeholder of a value tells its kind to completion: TOPIC, GROUP, FILE, or a list such as table|json.
"""
