"""The JVMs of the tests of audits are soon done."""

from __future__ import annotations

import pytest

from tests.support import spark_classes


@pytest.fixture(autouse=True)
def quick_java(monkeypatch: pytest.MonkeyPatch) -> None:
    """Choose the quick compiler for the JVMs of all processes, and the classes that are in memory, if they are."""
    monkeypatch.setenv("JDK_JAVA_OPTIONS", " ".join(spark_classes.find_options()))
