"""Running a Java client: its jars by Maven coordinates, and a source file of ours against them."""

from __future__ import annotations

import json
import subprocess
import tempfile
from functools import cache
from pathlib import Path
from typing import Any, Final

__all__ = ["ask", "classpath"]

POM: Final = """<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>
<groupId>hashstar</groupId><artifactId>recorder</artifactId><version>1</version>
<dependencies>{}</dependencies></project>"""


@cache
def classpath(*coordinates: str) -> str:
    """The class path with these artifacts (``group:artifact:version``) and what they depend on."""
    wanted = [coordinate.split(":") for coordinate in coordinates]
    dependencies = "".join(
        f"<dependency><groupId>{group}</groupId><artifactId>{name}</artifactId><version>{version}</version></dependency>"
        for group, name, version in wanted
    )
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "pom.xml").write_text(POM.format(dependencies), encoding="utf-8")
        command = ["mvn", "-q", "-B", "dependency:build-classpath", "-Dmdep.outputFile=classpath"]
        subprocess.run(command, cwd=folder, check=True, timeout=600)
        return (Path(folder) / "classpath").read_text(encoding="utf-8").strip()


def ask(source: Path, jars: str, question: Any, *options: str) -> Any:
    """Run a Java source file with the question as JSON on standard input; its standard output is JSON too."""
    command = ["java", "-Xmx512m", *options, "-cp", jars, str(source)]
    text = json.dumps(question)
    done = subprocess.run(command, input=text, stdout=subprocess.PIPE, encoding="utf-8", check=True, timeout=600)
    return json.loads(done.stdout)
