"""A browser that the tests of pages share: starting one takes longer than drawing a page."""

from collections.abc import Iterator

import pytest

from tests.support.browser import Browser, open_browser


@pytest.fixture(scope="session")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with open_browser(tmp_path_factory.mktemp("browser")) as opened:
        yield opened
