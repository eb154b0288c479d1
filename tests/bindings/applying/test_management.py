"""What `apply` asks of a management API: policies, and the types and names that the broker gives what is declared."""

from __future__ import annotations

from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import pytest

from bindings.applying.live import Live, hash_arguments
from exchange import Binding, Exchange, InputError, Queue, Topology
from exchange.values.field_values import Typed


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


def as_json(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return arguments as the API shows them: without their types."""
    return {name: getattr(value, "value", value) for name, value in arguments.items()}


def test_unbinding_removes_no_binding_of_the_same_key_with_other_arguments() -> None:
    """One whose arguments are equal in JSON and have other types is removed by its name."""
    wanted, other = (Binding.to_queue("amq.headers", "q", "k", {"a": value}) for value in (1, 2))
    deleted: list[str] = []

    def request(method: str, path: str) -> Any:
        if method == "DELETE":
            deleted.append(path)
            return None
        ends = {"source": "amq.headers", "destination": "q", "destination_type": "queue", "routing_key": "k"}
        return [{**ends, "properties_key": f"k~{hash_arguments(each)}", "arguments": as_json(each)} for each in there]

    api: Any = SimpleNamespace(address="http://api", request=request)
    for there, is_removed in (
        ([other.arguments], False),
        ([other.arguments, wanted.arguments], False),
        ([other.arguments, {"a": Typed("short", 1)}], True),
    ):
        deleted.clear()
        assert live_of(api).unbind(wanted) == is_removed
        assert len(deleted) == is_removed
        assert not is_removed or deleted[0].endswith(f"k~{hash_arguments(there[1])}")


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
