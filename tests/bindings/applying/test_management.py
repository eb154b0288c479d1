"""What `apply` asks of a management API: policies, and the types and names that the broker gives what is declared."""

from __future__ import annotations

from typing import Any

import pytest

from bindings.applying.live import Live
from exchange import Binding, Exchange, InputError, Queue, Topology


class Api:
    """A management API with one policy, which it deletes, or refuses to; and with the settings of a virtual host."""

    def __init__(self, *policies: str, refuses: bool = False, default: str | None = None) -> None:
        self.address = "http://api"
        self.policies = list(policies)
        self._refuses = refuses
        self._default = default

    def request(self, method: str, path: str, body: Any = None) -> Any:
        if path == "/api/vhosts/%2F":
            return {"name": "/", "default_queue_type": self._default}
        start, _, name = path.partition("/%2F/")
        assert start.removesuffix("/%2F") == "/api/policies"
        if method == "GET":
            return [{"name": each} for each in self.policies]
        if self._refuses or name not in self.policies:
            raise InputError("refused")
        self.policies.remove(name)
        return None


def live_of(api: Any) -> Live:
    return Live(api, "/")


def test_a_policy_is_cleared_and_one_that_is_gone_is_no_error() -> None:
    api = Api("p", "other")
    for _ in range(2):
        live_of(api).clear_policy("p")
    assert api.policies == ["other"]


@pytest.mark.parametrize("names", [("p",), ("other", "p")])
def test_a_policy_that_is_still_there_after_an_error_was_not_cleared(names: tuple[str, ...]) -> None:
    with pytest.raises(InputError, match="refused"):
        live_of(Api(*names, refuses=True)).clear_policy("p")


DECLARED = {
    "durable": Queue("durable"),
    "transient": Queue("transient", durable=False),
    "stream": Queue("stream", arguments={"x-queue-type": "stream"}),
    "classic": Queue("classic", arguments={"x-queue-type": "classic"}),
}


@pytest.mark.parametrize("default", [None, "undefined", "classic", "quorum", "stream"])
def test_only_durable_queues_without_a_type_get_the_default_one(default: str | None) -> None:
    given = None if default in (None, "undefined", "classic") else default
    topology = Topology(queues=DECLARED.values())
    after = live_of(Api(default=default)).as_declared(topology).queues
    typed = Queue("durable", arguments={"x-queue-type": given}) if given else DECLARED["durable"]
    assert after == {**DECLARED, "durable": typed}


def test_names_lose_their_line_breaks() -> None:
    topology = Topology([Exchange("a\nb")], [Queue("c\r\nd")], [Binding.to_queue("a\nb", "c\r\nd", "k\n")])
    after = live_of(Api()).as_declared(topology)
    assert after == Topology([Exchange("ab")], [Queue("cd")], [Binding.to_queue("ab", "cd", "k\n")])
