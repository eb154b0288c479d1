"""Commands that talk AMQP: the login of the environment, where their address has none."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import unquote

import pytest

from bindings.applying.address import Addresses
from bindings.sources.access_token import VARIABLE
from bindings.sources.management import PASSWORD, USER
from bridge.consumers.groups import commands as groups
from bridge.endpoint import Disconnected
from bridge.endpoints.rabbitmq.addresses import find_broker
from tests.support.bridge.oauth import make_unsigned

FILE = f"{VARIABLE}_FILE"
LOGIN = {USER: "ann", PASSWORD: "p"}


def test_commands_over_amqp_have_the_login_of_the_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text(make_unsigned(60))
    monkeypatch.setenv(FILE, str(file))
    assert Addresses.parse("amqp://h").management.read_login() == ("", file.read_text())
    assert [each.credentials.password for each in find_broker("amqp://h", "n")] == [file.read_text()]
    assert unquote(groups._address("amqp://h/v")) == f"amqp://token:{file.read_text()}@h/v"
    assert groups._address("amqp://u:p@h") == "amqp://u:p@h"
    file.write_text(make_unsigned(-60))
    with pytest.raises(Disconnected, match="the access token expired at "):
        [*find_broker("amqp://h", "n")]
    monkeypatch.delenv(FILE)
    assert find_broker("amqp://h", "n")[0].credentials.username == "guest"
    for name, value in LOGIN.items():
        monkeypatch.setenv(name, value)
    assert find_broker("amqp://h", "n")[0].credentials.username == "ann"
    assert find_broker("amqp://u:p@h", "n")[0].credentials.username == "u"
    assert groups._address(None) == "amqp://ann:p@127.0.0.1"
