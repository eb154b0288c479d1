"""What is kept of Maven's and the compiler's answers is never out of date."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from subprocess import CalledProcessError
from zipfile import ZipFile

import pytest

from tests.recorders import jvm
from tests.support import spark_classes

MAVEN = """#!/bin/sh
# Answers with two jars, and counts how often it was asked.
echo asked >>"$ASKED"
printf '%s' "$JARS/one.jar:$JARS/two.jar" >classpath
"""
SOURCE = 'public class Says { public static void main(String[] given) { System.out.println("%s"); } }'


@pytest.fixture(autouse=True)
def kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the cache of this test."""
    monkeypatch.setenv("HASHSTAR_CACHE", str(tmp_path / "kept"))
    return tmp_path / "kept"


def test_jars_are_downloaded_once_and_again_when_one_is_gone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    maven, asked, jars = tmp_path / "bin" / "mvn", tmp_path / "asked", tmp_path / "jars"
    for folder in (maven.parent, jars):
        folder.mkdir()
    maven.write_text(MAVEN)
    maven.chmod(0o755)
    for name in ("one.jar", "two.jar"):
        (jars / name).touch()
    monkeypatch.setenv("PATH", f"{maven.parent}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("ASKED", str(asked))
    monkeypatch.setenv("JARS", str(jars))

    def times(*coordinates: str) -> int:
        assert jvm.find_classpath.__wrapped__(*coordinates) == f"{jars}/one.jar:{jars}/two.jar"
        return len(asked.read_text().splitlines())

    assert [times("a:b:1"), times("a:b:1"), times("a:b:2")] == [1, 1, 2]
    (jars / "two.jar").unlink()
    assert times("a:b:1") == 3


@pytest.mark.process
def test_a_source_is_compiled_once_and_again_when_it_or_a_jar_has_changed(tmp_path: Path, kept: Path) -> None:
    for program in ("java", "javac"):
        if shutil.which(program) is None:
            pytest.skip(f"no {program} on this machine")
    source, jar = tmp_path / "Says.java", tmp_path / "empty.jar"
    ZipFile(jar, "w").close()

    def compiled(number: int) -> int:
        source.write_text(SOURCE % number)
        jvm.make_command(source, f"{tmp_path}/*")
        return len(list((kept / "java").iterdir()))

    assert [compiled(1), compiled(1), compiled(2)] == [1, 1, 2]
    assert jvm.ask(source, f"{tmp_path}/*", None, *jvm.QUICK) == 2
    assert compiled(1) == 2
    os.utime(jar, (1, 1))
    assert compiled(1) == 3


def test_a_client_without_an_address_is_started_again_and_nothing_else_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """RocketMQ's own finds none, and ends, while the networks of other tests' containers come and go."""
    starts = tmp_path / "starts"

    def ask(error: str, failures: int) -> object:
        starts.write_text("")
        script = f'echo >>{starts}; [ $(wc -l <{starts}) -gt {failures} ] && exec cat; echo "{error}" >&2; exit 1'
        monkeypatch.setattr(jvm, "make_command", lambda *_: ["sh", "-c", script])
        try:
            return jvm.ask(tmp_path, "", {"a": 1})
        except CalledProcessError:
            return len(starts.read_text())

    missing = "at org.apache.rocketmq.common.utils.NetworkUtil.getLocalAddress(NetworkUtil.java:171)"
    assert ask(missing, jvm.TRIES - 1) == {"a": 1}
    assert ask(missing, jvm.TRIES) == jvm.TRIES
    assert ask("java.lang.NullPointerException", 1) == 1


def test_the_classes_of_spark_are_mapped_once_they_were_made(kept: Path) -> None:
    find_options = spark_classes.find_options.__wrapped__
    assert find_options() == jvm.QUICK
    archive = spark_classes.find_archive()
    if archive is None:
        pytest.skip("Java or Spark is missing")
    archive.touch()
    assert f"-XX:SharedArchiveFile={archive}" in find_options()
