"""Manual pages and shell completions, made from the commands themselves: `python -m kcli.cli.docs [FOLDER]`.

`tree.read_tree` reads all commands from the parser's whole tree as plain data; `man` and `completions` turn them into
text; `__main__` writes the files. `guide.md` is written by hand.

No threads; a separate program that no command imports.

**Non-obvious**

- The sources of a manual page are the docstring of the command's `run` and the help of its options. Edit these, then
  run the module; a test compares the files in man/ and completions/ with the result.
- A paragraph whose first line is the character \\b is preformatted, in the help and in the page.
- Completion offers values only for options whose metavar is a list, such as table|json.
"""
