"""The JVMs of these tests are soon done, as those of audits."""

from tests.bindings.auditing.conftest import quick_java  # noqa: F401
