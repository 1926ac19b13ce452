"""Write `man/` and `completions/` below a folder, by default the current one."""

from __future__ import annotations

import sys
from pathlib import Path

from kcli.cli.docs.files import generated


def main(folder: Path) -> None:
    files = {folder / name: text for name, text in generated().items()}
    for path, text in files.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    for page in {path for section in "17" for path in (folder / "man").glob(f"*.{section}")} - files.keys():
        page.unlink()  # the page of a removed command


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "."))
