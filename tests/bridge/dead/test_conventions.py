"""The headers by which systems show why a message died, as their sources and live brokers have them."""

from __future__ import annotations

import pytest

from bridge.dead.conventions import CONVENTIONS, Death, find_death, shape_key, shape_text

RECORDED = {
    "x-first-death-reason": "rejected", "x-first-death-queue": "jobs", "x-first-death-exchange": "orders",
    "x-last-death-reason": "expired", "x-last-death-queue": "wait", "x-last-death-exchange": "",
    "x-death": '[{"count": 2, "reason": "expired", "queue": "wait", "time": {"!timestamp": 1790000060}, '
    '"exchange": "", "routing-keys": ["wait"]}, {"count": 2, "reason": "rejected", "queue": "jobs", '
    '"time": {"!timestamp": 1790000000}, "exchange": "orders", "routing-keys": ["order.1234.paid"]}]',
}  # fmt: skip
"""The headers of a message of RabbitMQ 4.3 that was rejected, waited, and was rejected and waited again."""

CASES = {
    "hashstar": (
        {"hashstar-reason": "no queue after 3 tries", "hashstar-queue": "billing", "hashstar-exchange": "orders",
         "hashstar-routing-key": "order.eu", "hashstar-attempts": "3"},
        Death("hashstar", "no queue after # tries", "billing", "", "orders", "order.eu", "", ""), "order.eu",
    ),
    "Kafka Connect": (
        {"__connect.errors.topic": "orders", "__connect.errors.partition": "2",
         "__connect.errors.stage": "VALUE_CONVERTER",
         "__connect.errors.exception.class.name": "org.apache.kafka.connect.errors.DataException",
         "__connect.errors.exception.message": "Unknown magic byte at 17"},
        Death("Kafka Connect", "VALUE_CONVERTER", "orders", "", "dlq", "k",
              "org.apache.kafka.connect.errors.DataException", "Unknown magic byte at #"), "k",
    ),
    "Spring Kafka": (
        {"kafka_dlt-original-topic": "orders", "kafka_dlt-original-partition": "\\x00",
         "kafka_dlt-exception-message": "no",
         "kafka_dlt-exception-fqcn": "org.springframework.kafka.listener.ListenerExecutionFailedException",
         "kafka_dlt-exception-cause-fqcn": "java.lang.IllegalStateException"},
        Death("Spring Kafka", "java.lang.IllegalStateException", "orders", "", "dlq", "k",
              "org.springframework.kafka.listener.ListenerExecutionFailedException", "no"), "k",
    ),
    "Spring Kafka, retry topics": (
        {"kafka_original-topic": "orders", "kafka_original-partition": "\\x00", "kafka_exception-message": "no",
         "kafka_exception-fqcn": "java.lang.Error", "retry_topic-attempts": "\\x00"},
        Death("Spring Kafka, retry topics", "retried too often", "orders", "", "dlq", "k", "java.lang.Error", "no"),
        "k",
    ),
    "Spring Cloud Stream": (
        {"x-original-topic": "orders", "x-exception-fqcn": "java.lang.Error", "x-exception-message": "no",
         "x-exception-stacktrace": "at ..."},
        Death("Spring Cloud Stream", "republished", "orders", "", "dlq", "k", "java.lang.Error", "no"), "k",
    ),
    "Spring AMQP": (
        {"x-exception-message": "id 5 is gone", "x-exception-stacktrace": "at ...", "x-original-exchange": "orders",
         "x-original-routingKey": "order.eu.1234", **RECORDED},
        Death("Spring AMQP", "republished", "", "", "orders", "order.eu.*", "", "id # is gone"), "order.eu.1234",
    ),
    "RocketMQ": (
        {"x-rocketmq-DLQ_ORIGIN_TOPIC": "orders", "x-rocketmq-RETRY_TOPIC": "orders",
         "x-rocketmq-RECONSUME_TIME": "16"},
        Death("RocketMQ", "consumed too often", "orders", "", "orders", "k", "", ""), "k",
    ),
    "RabbitMQ": (
        RECORDED,
        Death("RabbitMQ", "expired", "wait", "rejected in 'jobs'", "orders", "order.*.paid", "", ""), "order.1234.paid",
    ),
}  # fmt: skip


def test_each_row_of_the_table_has_a_case() -> None:
    assert CASES.keys() == {each.name for each in CONVENTIONS}


@pytest.mark.parametrize("name", CASES)
def test_the_headers_of_each_system_are_read(name: str) -> None:
    headers, death, key = CASES[name]
    assert find_death(headers, "dlq", "k") == (death, key)


def test_a_message_without_such_headers_is_a_group_by_its_exchange_and_key() -> None:
    assert find_death({"tenant": "a"}, "e", "a.1234") == (Death("", "", "", "", "e", "a.*", "", ""), "a.1234")


@pytest.mark.parametrize(
    "text",
    ["", "null", "[", "5", '["x"]', "[[]]", '[{"queue": 5, "routing-keys": [7]}]', "[" * 5_000, '[{"reason": []}]'],
)
def test_an_x_death_of_any_content_is_read_as_far_as_it_goes(text: str) -> None:
    death, key = find_death({"x-death": text}, "e", "k")
    assert (death.by, death.exchange, death.key, key) == ("RabbitMQ", None, "k", "k")


NAMED = '[{"reason": "rejected", "queue": "jobs", "exchange": "orders", "routing-keys": ["order.eu"]}]'
UNNAMED = '[{"reason": "rejected", "queue": "jobs", "exchange": "orders", "routing-keys": []}]'


@pytest.mark.parametrize(
    "mark", [{}, {"hashstar-reason": "no"}, {"x-exception-message": "no"}, {"x-exception-stacktrace": "at ..."}]
)
def test_how_a_dead_letter_was_published_is_what_headers_name_and_never_a_guess(mark: dict[str, str]) -> None:
    own = {"hashstar-reason": ("hashstar-exchange", "hashstar-routing-key")}
    names = own.get(next(iter(mark), ""), ("x-original-exchange", "x-original-routingKey"))
    for deaths in (None, "no array", "[]", UNNAMED, NAMED):
        for number in range(3):
            named = dict(list(zip(names, ("", "a"), strict=True))[:number])
            headers = {**mark, **named, **({} if deaths is None else {"x-death": deaths})}
            if not mark and deaths is None:
                continue
            death, key = find_death(headers, "dlx", "k")
            by_deaths = ("orders", "order.eu") if deaths == NAMED else (None, "k")
            assert (death.exchange, key) == (("", "a") if mark and number == 2 else by_deaths), headers


def test_topics_are_no_default_exchange() -> None:
    for each in CONVENTIONS:
        if each.has_topics:
            assert find_death({each.marks[0]: ""}, "", "k")[0].exchange is None, each.name


@pytest.mark.parametrize(
    ("key", "shape"),
    [("order.eu.paid", "order.eu.paid"), ("order.12.paid", "order.*.paid"), ("1.2.3.a", "*.*.*.a"),
     ("order.123.paid", "order.*.paid"),
     ("123456", "*"), ("a..1f3c2d7e", "a..*"), ("", ""), ("v1.b2.c345-d", "v1.b2.*"), ("x" * 300, "x" * 255)],
)  # fmt: skip
def test_a_word_with_three_digits_varies(key: str, shape: str) -> None:
    assert shape_key(key) == shape


def test_numbers_and_identifiers_vary_in_errors() -> None:
    text = "order 0123abcd-0123-0123-0123-0123456789ab at 0x7fff failed 3 times"
    assert shape_text(text) == "order # at # failed # times"
