"""Take docs/audit-page.png: the page of an audit as Chromium shows it. Run ``make demo`` first."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

import click

BROWSERS: Final = ("chromium", "chromium-browser", "google-chrome")
ROOT: Final = Path(__file__).parents[2]
PICTURE: Final = ROOT / "docs" / "audit-page.png"
LARGEST: Final = 150_000
"""Maximum size of the picture in bytes: it is part of every checkout."""


@click.command()
@click.argument("page", type=click.Path(exists=True, dir_okay=False, path_type=Path), metavar="PAGE.HTML")
@click.option("--to", "picture", type=click.Path(path_type=Path), default=PICTURE, help="The PNG file to write.")
@click.option("--width", default=1180, show_default=True, help="Width of the window, in pixels.")
@click.option("--height", default=860, show_default=True, help="Height of the window, in pixels.")
def main(page: Path, picture: Path, width: int, height: int) -> None:
    """Take a picture of the beginning of PAGE.HTML, an audit's page as ``make demo`` names it."""
    browser = next((found for name in BROWSERS if (found := shutil.which(name))), None)
    if browser is None:
        click.echo(f"picture: there is none of {', '.join(BROWSERS)} on the path", err=True)
        sys.exit(2)
    with tempfile.TemporaryDirectory() as folder:
        taken = Path(folder) / "taken.png"
        command = [
            browser, "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--force-color-profile=srgb",
            f"--user-data-dir={Path(folder) / 'profile'}", "--virtual-time-budget=4000",
            f"--window-size={width},{height}", f"--screenshot={taken}", page.resolve().as_uri(),
        ]  # fmt: skip
        subprocess.run(command, capture_output=True, timeout=120, check=True, env={**os.environ, "LANG": "C.UTF-8"})  # noqa: S603
        size = taken.stat().st_size
        if size > LARGEST:
            click.echo(f"picture: it has {size:,} bytes, more than {LARGEST:,}; take a smaller window", err=True)
            sys.exit(1)
        shutil.copyfile(taken, picture)
    click.echo(f"{picture}: {size:,} bytes")


if __name__ == "__main__":
    main(prog_name="python -m examples.demo.picture")
