"""The model lives the scenarios as live brokers of 3.10, 4.0 and 4.3 did when they were recorded."""

from __future__ import annotations

from typing import Any

from exchange import Message
from exchange.entities.releases import find_profile
from exchange.lifecycle.broker import Broker
from tests.recorders import golden
from tests.support.cases import with_each
from tests.support.lives.scenarios import PAUSE_SECONDS, SCENARIOS, Scenario, Taken, describe, play

RECORDINGS = {name: golden.read(name) for name in golden.names("rabbitmq-lives-")}


class ModelDriver:
    """The model, with the time of a virtual clock."""

    def __init__(self, scenario: Scenario, version: str) -> None:
        self._broker = Broker(scenario.topology.with_profile(find_profile(version)))

    def publish(self, message: Message) -> bool:
        """Publish."""
        return self._broker.publish(message).is_confirmed

    def get(self, queue: str) -> Taken | None:
        """Take a message."""
        delivery = self._broker.get(queue)
        return None if delivery is None else Taken(delivery.message, delivery.redelivered, delivery)

    def settle(self, taken: Taken, method: str, requeue: bool) -> None:
        """Settle by the method of this name."""
        if method == "ack":
            self._broker.ack(taken.handle)
        else:
            getattr(self._broker, method)(taken.handle, requeue=requeue)

    def pause(self) -> None:
        """Advance the clock."""
        self._broker.advance(PAUSE_SECONDS)


@with_each(
    ("recording", "scenario"),
    [
        (name, scenario)
        for name, recorded in RECORDINGS.items()
        for scenario, life in SCENARIOS.items()
        if life.is_for(recorded["version"])
    ],
)
def test_the_model_lives_as_the_recorded_broker(recording: str, scenario: str) -> None:
    """Confirms, deliveries, the headers of all deaths and what is left in the queues are those of the broker."""
    recorded = RECORDINGS[recording]
    driver = ModelDriver(SCENARIOS[scenario], recorded["version"])
    assert play(SCENARIOS[scenario], driver) == recorded[scenario]


def test_three_releases_are_recorded() -> None:
    """Each scenario on each of them."""
    assert {name.rpartition("-")[2] for name in RECORDINGS} == {"3.10", "4.0", "4.3"}
    for recorded in RECORDINGS.values():
        assert {name for name, each in SCENARIOS.items() if each.is_for(recorded["version"])} <= recorded.keys()


def test_releases_differ_where_they_are_known_to(  # the recordings would not show it if they were all of one broker
) -> None:
    """Of the scenarios, at least those of failures and of the order of drops."""
    lives: dict[str, list[Any]] = {
        scenario: [recorded[scenario] for recorded in RECORDINGS.values()]
        for scenario, life in SCENARIOS.items()
        if life.is_for("3.10")
    }
    different = {scenario for scenario, answers in lives.items() if answers[0] != answers[-1]}
    assert {"over the delivery limit", "several dropped at once by a quorum queue"} <= different


def test_nothing_taken_is_described_as_none() -> None:
    """As basic.get-empty."""
    assert describe(None) is None
