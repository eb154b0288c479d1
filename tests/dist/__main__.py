"""``make dist``: build what is released into ``dist/``, and try it as somebody who has nothing else.

Builds the sdist twice, from two copies of the checked-out files, and the wheel from the first sdist and from the
second copy: both must be equal byte for byte. Installs the wheel into empty environments, with the core dependencies
and with all extras, runs the commands there, and writes a software bill of materials (CycloneDX) of all extras; each
licence in it must be one of `ALLOWED`. Packages come from the index that pip is configured for, in the versions of
``tests/requirements.txt``; the wheel must need nothing else. Nothing is published.

Where ``HASHSTAR_CACHE`` names a folder, packages that have passed are kept in it, compiled: as long as the wheel asks
for the same and the lock has the same, only the wheel is installed beside them, and the bill is not validated again.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import sysconfig
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory
from time import monotonic
from typing import Any, Final

import click

ROOT: Final = Path(__file__).parents[2]
DIST: Final = ROOT / "dist"

ALLOWED: Final = frozenset(
    {
        "0BSD", "Apache-2.0", "BSD-2-Clause", "BSD-3-Clause", "CC0-1.0", "ISC", "MIT", "MPL-2.0", "PSF-2.0", "Zlib",
        "License :: OSI Approved :: Apache Software License", "License :: OSI Approved :: BSD License",
        "License :: OSI Approved :: MIT License", "License :: OSI Approved :: Mozilla Public License 2.0 (MPL 2.0)",
    }
)  # fmt: skip
"""Licences of dependencies, as SPDX or the classifiers name them, that ask nothing of who uses hashstar."""

TOPOLOGY: Final = """\
vhost "/"
exchange orders: topic
queue billing
orders -> billing: "order.*.paid"
"""

ROUTED: Final = {"exchange": "orders", "routing_key": "order.eu.paid", "queues": ["billing"], "unroutable": False}


@click.command()
@click.option("--core", is_flag=True, help="Build, and try the core only: no environment with all extras, no SBOM.")
def main(*, core: bool) -> None:
    """Build the artifacts twice, compare them, install them and try them."""
    with TemporaryDirectory() as folder:
        work = Path(folder)
        wheel = build_artifacts(work)
        try_core(work / "core", wheel)
        if not core:
            try_extras(work / "all", wheel)
    for path in sorted(DIST.iterdir()):
        click.echo(f"{sha256(path.read_bytes()).hexdigest()}  dist/{path.name}")


def build_artifacts(work: Path) -> Path:
    """Build sdist and wheel twice, the wheel once from the sdist, compare all bytes, and return the wheel in `DIST`."""
    epoch = output(["git", "log", "-1", "--format=%ct"], cwd=ROOT).strip()
    names = output(["git", "ls-files", "-z"], cwd=ROOT).split("\0")
    builds = []
    for number, options in (("first", ()), ("second", ("--sdist", "--wheel"))):  # without options, from the sdist
        with step(f"build sdist and wheel, {number} time"):
            copy = work / number / "tree"
            for name in filter(None, names):
                if (ROOT / name).is_file():
                    (copy / name).parent.mkdir(parents=True, exist_ok=True)
                    shutil.copy(ROOT / name, copy / name)
            builds.append(_build(copy, work / number / "dist", epoch, *options))
    if builds[0] != builds[1]:
        raise click.ClickException(f"two builds differ: {builds[0]} and {builds[1]}")
    shutil.rmtree(DIST, ignore_errors=True)
    shutil.copytree(work / "first/dist", DIST)
    return next(DIST.glob("*.whl"))


def try_core(environment: Path, wheel: Path) -> None:
    """Install the wheel without extras, and use what needs none: help, route, check, manual pages, completions."""
    with step("install the core"):
        python = install(environment, wheel)
    listed = output([sys.executable, "-m", "pip", "--python", python, "list", "--format", "json"])
    installed = {row["name"] for row in json.loads(listed)}
    if installed != {"hashstar", "lark", "click"}:
        raise click.ClickException(f"the core brings more than lark and click: {sorted(installed)}")
    program = str(environment / "bin/hashstar")
    topology = environment / "shop.bindings"
    topology.write_text(TOPOLOGY)
    with step("use the core"):
        output([program, "--help"])
        version = output([program, "--version"]).split()[-1]
        if version != tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]:
            raise click.ClickException(f"hashstar --version prints {version}")
        message = '{"exchange": "orders", "routing_key": "order.eu.paid"}\n'
        routed = json.loads(output([program, "route", "-t", str(topology)], text=message))
        if routed != ROUTED:
            raise click.ClickException(f"hashstar route prints {routed}")
        output([program, "check", str(topology)])
    for name in ("man/man1/hashstar-route.1", "bash-completion/completions/hashstar", "zsh/site-functions/_hashstar"):
        if not (environment / "share" / name).is_file():
            raise click.ClickException(f"share/{name} is not installed")


def try_extras(environment: Path, wheel: Path) -> None:
    """Install the wheel with all extras, write the SBOM, check the licences in it, and import every module."""
    kept = _find_kept()
    known = kept is not None and kept.exists()
    with step("install with all extras"):
        python = install(environment, wheel, "all", kept=kept if known else None)
    with step("write the bill of materials"):
        sbom = DIST / f"{wheel.name.removesuffix('-py3-none-any.whl')}.cdx.json"
        options = ["--output-reproducible", "--pyproject", str(ROOT / "pyproject.toml"), "-o", str(sbom)]
        output([sys.executable, "-m", "cyclonedx_py", "environment", *options, *["--no-validate"] * known, python])
    if refused := list(_refused(sbom)):
        raise click.ClickException(f"licences that are not allowed: {'; '.join(refused)}")
    with step("import every module"):
        output([python, "-c", IMPORT_ALL], cwd=environment)
    if kept is not None and not known:
        output([sys.executable, "-m", "pip", "--python", python, "uninstall", "--quiet", "--yes", "hashstar"])
        kept.parent.mkdir(parents=True, exist_ok=True)
        partial = kept.with_name(f"{kept.name}.{os.getpid()}")
        _link(_find_packages(environment), partial)
        partial.rename(kept)


IMPORT_ALL: Final = """\
import importlib, pkgutil
without = ("bindings.pytest_plugin", "bindings.adapters.", "bindings.mcp.server", "exchange.partition.hashing.kernels")
for package in ("exchange", "bindings", "bridge"):
    for module in pkgutil.walk_packages(importlib.import_module(package).__path__, package + "."):
        if not module.name.startswith(without):
            importlib.import_module(module.name)
"""
"""Imports all modules but the plugin of pytest, which only pytest loads, and what needs an extra that is not in `all`:
adapters and compiled hashes.
"""


def install(environment: Path, wheel: Path, *extras: str, kept: Path | None = None) -> str:
    """Make a virtual environment, install the wheel with the extras into it, and return its Python.

    What the lock has for the extras is fetched and built here, or taken from what was kept: in the environment there is
    nothing else than the wheel asks for.
    """
    output([sys.executable, "-m", "venv", "--without-pip", str(environment)])
    options = ["--quiet", "--no-compile", "--no-index"]
    if kept is None:
        wheels = environment.with_name(f"{environment.name}-wheels")
        wheels.mkdir()
        fetch = ["--quiet", "--no-build-isolation", "--use-pep517", "--wheel-dir", str(wheels)]
        output([sys.executable, "-m", "pip", "wheel", *fetch, "--requirement", write_requirements(wheels, *extras)])
        options += ["--find-links", str(wheels)]
    else:
        kept.touch()  # the newest are kept
        _find_packages(environment).rmdir()
        _link(kept, _find_packages(environment))
    python = str(environment / "bin/python")
    wanted = f"{wheel}[{','.join(extras)}]" if extras else str(wheel)
    output([sys.executable, "-m", "pip", "--python", python, "install", *options, wanted])
    return python


def _find_packages(environment: Path) -> Path:
    """Return the folder of an environment in which packages are."""
    return environment / "lib" / f"python{sysconfig.get_python_version()}" / "site-packages"


def _find_kept() -> Path | None:
    """Return the folder in which the packages of all extras are or will be kept, by all that decides which they are."""
    if not (cache := os.environ.get("HASHSTAR_CACHE")):
        return None
    decisive = (ROOT / name for name in ("pyproject.toml", "tests/requirements.txt", "tests/support/lock.py"))
    texts = [sys.version.encode(), Path(__file__).read_bytes(), *(path.read_bytes() for path in decisive)]
    return Path(cache) / "dist" / sha256(b"\0".join(texts)).hexdigest()[:16]


def _link(source: Path, target: Path) -> None:
    """Copy a folder by hard links, or whole where there cannot be any: pip replaces files, and changes none."""
    try:
        shutil.copytree(source, target, copy_function=os.link)
    except shutil.Error:
        shutil.rmtree(target)
        shutil.copytree(source, target)


def write_requirements(folder: Path, *names: str) -> str:
    """Write what the lock has for the core, and for extras and groups of these names, and return the file."""
    path = folder / "requirements.txt"
    path.write_text(output([sys.executable, "tests/support/lock.py", "tests/requirements.txt", *names], cwd=ROOT))
    return str(path)


class step:  # noqa: N801  a context manager that reads as a verb
    """Prints what is done, and how many seconds it took."""

    def __init__(self, text: str) -> None:
        self._text = text

    def __enter__(self) -> None:
        self._start = monotonic()

    def __exit__(self, *error: object) -> None:
        click.echo(f"{monotonic() - self._start:6.1f} s  {self._text}{' FAILED' if error[0] else ''}")


def output(command: Sequence[str], *, text: str | None = None, cwd: Path | None = None, **variables: str) -> str:
    """Run a command of at most ten minutes and return what it prints. Raises ClickException if it fails."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"} | variables
    done = subprocess.run(
        command, input=text, capture_output=True, text=True, cwd=cwd, env=environment, timeout=600, check=False
    )
    if done.returncode:
        raise click.ClickException(f"{' '.join(command)}\n{done.stdout}{done.stderr}")
    return done.stdout


def _build(tree: Path, target: Path, epoch: str, *options: str) -> Mapping[str, str]:
    """Build in the tree; return the names and digests of what was built."""
    build = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(target)]
    output([*build, *options], cwd=tree, SOURCE_DATE_EPOCH=epoch)
    return {path.name: sha256(path.read_bytes()).hexdigest() for path in sorted(target.iterdir())}


def _refused(sbom: Path) -> Iterator[str]:
    """Yield each component of the SBOM, except our own, that may not be used under licences of `ALLOWED` alone."""
    for component in json.loads(sbom.read_text())["components"]:
        licences = [_expression(licence) for licence in component.get("licenses", [])]
        if component["name"] != "hashstar" and not (licences and all(map(_is_allowed, licences))):
            yield f"{component['name']}: {', '.join(licences) or 'none'}"


def _expression(licence: Mapping[str, Any]) -> str:
    """Return the SPDX expression or identifier, or the name, of a licence in an SBOM."""
    if "expression" in licence:
        return str(licence["expression"])
    return str(licence["license"].get("id") or licence["license"]["name"])


def _is_allowed(expression: str) -> bool:
    """Return whether one of the alternatives of the expression has allowed licences only."""
    return any(
        all(name in ALLOWED or name.strip(" ()") in ALLOWED for name in alternative.split(" AND "))
        for alternative in expression.split(" OR ")
    )


if __name__ == "__main__":
    main()
