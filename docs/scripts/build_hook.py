"""The hook of the wheel's build: manual pages and completions, made of the commands and installed below ``share/``."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class PagesHook(BuildHookInterface[Any]):  # type: ignore[misc, unused-ignore]  # where hatchling is not installed
    """Adds the pages to the wheel; an editable install has none."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Write the pages to a folder of their own, and name each of them as shared data of the wheel."""
        if version == "editable":
            return
        sys.path.insert(0, self.root)
        from docs.scripts.man_pages import write_pages

        changelog = (Path(self.root) / "CHANGELOG.md").read_text("utf-8")
        self._folder = tempfile.TemporaryDirectory()
        folder = Path(self._folder.name)
        for path in write_pages(folder, self.metadata.version, changelog):
            build_data["shared_data"][str(folder / path)] = f"share/{path.as_posix()}"

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """Remove the folder of the pages."""
        if version != "editable":
            self._folder.cleanup()
