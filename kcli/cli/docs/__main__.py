"""Write `man/`, `completions/`, the table of completion and the files for type checkers below a folder."""

from __future__ import annotations

import sys
from pathlib import Path

from kcli.cli.completion.scripts import FILES, SCRIPTS
from kcli.cli.docs import completion_table, configuration, man, spark_page
from kcli.cli.docs.page import troff
from kcli.cli.docs.tree import read_tree
from kcli.cli.docs.type_files import type_files


def main(folder: Path) -> None:
    """Write all generated files, and delete the pages of removed commands."""
    files = {folder / name: text for name, text in generated().items()}
    for path, text in files.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    for page in {path for section in "17" for path in (folder / "man").glob(f"*.{section}")} - files.keys():
        page.unlink()  # the page of a removed command


def generated() -> dict[str, str]:
    """Return the text of every generated file by its path in the repository."""
    commands = read_tree()
    files = {"kcli/cli/completion/command_table.json": completion_table.table(commands)}
    files |= type_files()
    files |= {f"completions/{FILES[shell]}": script for shell, script in SCRIPTS.items()}
    pages = (man.overview(), configuration.page(), spark_page.page(), *map(man.page, commands))
    return files | {f"man/{page.file_name}": troff(page) for page in pages}


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "."))
