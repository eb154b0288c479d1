"""Administration refuses what is no configuration, before anything is asked."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from bridge.rocketmq.remoting import admin
from bridge.rocketmq.remoting.client import Client, ClientSettings

WRONG: Any = "T1"


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (
            lambda client: admin.create_topic(client, WRONG),
            r"topic must be a TopicConfig, .*; write TopicConfig\('T1'\)",
        ),
        (lambda client: admin.set_topic(client, "127.0.0.1:1", WRONG), "topic must be a TopicConfig, not str"),
        (
            lambda client: admin.create_group(client, WRONG),
            r"group must be a GroupConfig, not str; write GroupConfig\(",
        ),
    ],
)
def test_a_name_in_place_of_a_configuration_is_named_with_the_way_out(call: Any, words: str) -> None:
    async def check() -> None:
        with pytest.raises(TypeError, match=words):
            await call(Client(ClientSettings("127.0.0.1:1")))

    asyncio.run(check())
