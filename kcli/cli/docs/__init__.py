"""Manual pages and shell completions, made from the commands themselves: `python -m kcli.cli.docs [FOLDER]`."""
