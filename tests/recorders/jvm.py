"""Running a Java client: its jars by Maven coordinates, and a source file of ours against them.

Where the jars of coordinates are and what a source compiles to is kept below ``$HASHSTAR_CACHE``, or the user's cache:
Maven and the compiler take longer than most of what they are needed for. Neither can be out of date: coordinates are
of releases, whose jars stay as they are, and classes are kept by all that they were compiled from.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any, Final

PROGRAMS: Final = ("java", "javac", "mvn")
"""Programs that this machine must have."""
QUICK: Final = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xshare:auto")
"""Options for what takes a JVM a moment, as none lives long enough for the best compiler to pay; not where its speed is
measured."""
NO_ADDRESS: Final = "NetworkUtil.getLocalAddress"
"""In the stack trace of a client of RocketMQ that cannot be made: each looks at all networks of the machine for an
address of its own, whatever it is configured with, and fails if one of them, a container's, is gone meanwhile."""
TRIES: Final = 4
"""Maximum number of starts of a program that ends with `NO_ADDRESS`; a client is the first that it makes."""

POM: Final = """<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>
<groupId>hashstar</groupId><artifactId>recorder</artifactId><version>1</version>
<dependencies>{}</dependencies></project>"""


@cache
def find_classpath(*coordinates: str) -> str:
    """Return the class path with these artifacts (``group:artifact:version[:classifier]``) and their dependencies."""
    kept = find_cache_folder() / f"{digest_of(coordinates)}.classpath"
    if kept.exists():
        found = kept.read_text(encoding="utf-8")
        if all(Path(jar).exists() for jar in found.split(os.pathsep)):
            return found
    names = ("groupId", "artifactId", "version", "classifier")
    elements = [
        "".join(f"<{name}>{text}</{name}>" for name, text in zip(names, each.split(":"), strict=False))
        for each in coordinates
    ]
    dependencies = "".join(f"<dependency>{each}</dependency>" for each in elements)
    with tempfile.TemporaryDirectory(dir=kept.parent) as folder:
        (Path(folder) / "pom.xml").write_text(POM.format(dependencies), encoding="utf-8")
        resolving = ["mvn", "-q", "-B", "dependency:build-classpath", "-Dmdep.outputFile=classpath"]
        options = " ".join([*QUICK, os.environ.get("MAVEN_OPTS", "")])
        subprocess.run(resolving, cwd=folder, check=True, timeout=600, env=os.environ | {"MAVEN_OPTS": options})
        written = Path(folder) / "classpath"
        found = written.read_text(encoding="utf-8").strip()
        written.write_text(found, encoding="utf-8")
        written.replace(kept)
    return found


def make_command(source: Path, jars: str, *options: str) -> list[str]:
    """Return the command that runs a Java source file of one public class; arguments of ``main`` may be appended."""
    return ["java", "-Xmx512m", *options, "-cp", f"{_compile(source, jars)}{os.pathsep}{jars}", source.stem]


def ask(source: Path, jars: str, question: Any, *options: str) -> Any:
    """Run a Java source file with the question as JSON on standard input; its standard output is JSON too."""
    running = make_command(source, jars, *options)
    for _ in range(TRIES):
        done = subprocess.run(
            running, input=json.dumps(question), capture_output=True, encoding="utf-8", timeout=600, check=False
        )
        sys.stderr.write(done.stderr)
        if not done.returncode or NO_ADDRESS not in done.stderr:
            break
    done.check_returncode()
    return json.loads(done.stdout)


def _compile(source: Path, jars: str) -> Path:
    """Return the folder with the classes of a source file, compiled if they are not there."""
    compiler = Path(shutil.which("javac") or "javac").resolve()
    made_from = [str(compiler), source.name, source.read_text(encoding="utf-8"), *_files(jars)]
    kept = find_cache_folder() / f"{source.stem}-{digest_of(made_from)}"
    if not kept.exists():
        with tempfile.TemporaryDirectory(dir=kept.parent) as folder:
            classes = Path(folder) / "classes"
            compiling = [str(compiler), *[f"-J{option}" for option in QUICK], "-nowarn", "-encoding", "UTF-8"]
            subprocess.run([*compiling, "-cp", jars, "-d", str(classes), str(source)], check=True, timeout=600)
            try:
                classes.rename(kept)
            except OSError:
                if not kept.exists():  # by another process, which was done first
                    raise
    return kept


def _files(jars: str) -> list[str]:
    """Return the jars of a class path, which may name folders of them, each with its size and time."""
    found: list[Path] = []
    for entry in map(Path, jars.split(os.pathsep)):
        found += sorted(entry.parent.glob("*.jar")) if entry.name == "*" else [entry]
    return [f"{jar} {jar.stat().st_size} {jar.stat().st_mtime_ns}" for jar in found]


def find_cache_folder() -> Path:
    """Return the folder for what is made of jars, which exists."""
    folder = Path(os.environ.get("HASHSTAR_CACHE") or Path.home() / ".cache" / "hashstar") / "java"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def digest_of(parts: Iterable[str]) -> str:
    """Return the name for what is made of these."""
    return sha256(json.dumps(list(parts)).encode()).hexdigest()[:32]
