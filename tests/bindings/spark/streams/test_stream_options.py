"""The options of a stream's source: what is wrong in them is told with the way out, and no text has a password."""

from __future__ import annotations

import pickle
from datetime import UTC, datetime

import pytest

pytest.importorskip("pyspark")

import pyarrow as pa

from bindings.archive.reading import Bad
from bindings.spark.streams import source
from bindings.spark.streams.log import OffsetRange, StreamMessage
from bindings.spark.streams.planning import StreamNames
from bindings.spark.streams.source import StreamSettings, parse_position, read_items
from exchange.amqp import ContentHeader
from exchange.errors import InputError

URL = "amqp://reader:hunter2@rabbit,other:5673/my%2Fshop"


def test_options_are_read_and_their_text_has_no_password() -> None:
    settings = StreamSettings.read({"url": URL, "superStream": "orders", "routingKeys": "eu, us", "prefetch": "9"})
    assert settings.names == StreamNames("", "orders", ("eu", "us"))
    assert (settings.login.user, settings.login.password, settings.login.vhost) == ("reader", "hunter2", "my/shop")
    assert (settings.login.prefetch, settings.most, settings.end, settings.fail_on_data_loss) == (9, None, None, True)
    other = StreamSettings.read(
        {"url": URL, "stream": "s", "user": "u", "password": "secret9", "failOnDataLoss": "False"}
    )
    assert StreamSettings.read({"url": URL, "stream": "s", "startingOffsets": "8", "endingOffsets": "8"}).end == 8
    assert (other.login.user, other.login.password, other.fail_on_data_loss) == ("u", "secret9", False)
    for each in (settings, other):
        assert "hunter2" not in repr(each)
        assert "secret9" not in repr(each)
        assert pickle.loads(pickle.dumps(each)) == each  # noqa: S301


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({}, "name one: .*superStream"),
        ({"stream": "s", "superStream": "s"}, "name one"),
        ({"stream": "s", "routingKeys": "eu"}, "routingKeys are of a superStream"),
        ({"stream": "s", "failOnDataLoss": "no"}, "failOnDataLoss is 'no'; it can be true or false"),
        ({"stream": "s", "maxOffsetsPerTrigger": "0"}, "maxOffsetsPerTrigger is '0'; it is a number from 1 to"),
        ({"stream": "s", "prefetch": "1e3"}, "prefetch is '1e3'; it is a number from 1 to 65,535"),
        ({"stream": "s", "startingOffsets": "earliest"}, "startingOffsets is 'earliest'; it is first, last, next"),
        ({"stream": "s", "startingOffsets": "8", "endingOffsets": "7"}, "endingOffsets must be after startingOffsets"),
        ({"stream": "s", "caFile": "ca.pem"}, "caFile: the url must begin with amqps:"),
        ({"stream": "s", "startingOffset": "1"}, "did you mean 'startingOffsets'"),
    ],
)
def test_wrong_options_are_named(options: dict[str, str], match: str) -> None:
    with pytest.raises(InputError, match=match):
        StreamSettings.read({"url": URL, **options})
    with pytest.raises(InputError, match=r'name the broker: .option\("url"'):
        StreamSettings.read({"stream": "s"})


def test_certificates_that_cannot_be_read_are_named() -> None:
    with pytest.raises(InputError, match=r"nothing\.pem: cannot be used: No such file"):
        StreamSettings.read({"url": "amqps://rabbit/", "stream": "s", "caFile": "nothing.pem"})


@pytest.mark.parametrize(
    ("text", "position"),
    [
        ("first", "first"), ("next", "next"), ("12h", "12h"), ("17", 17),
        ("2026-11-30T08:00:00Z", datetime(2026, 11, 30, 8, tzinfo=UTC)),
        ("2026-11-30T08:00:00+02:00", datetime(2026, 11, 30, 6, tzinfo=UTC)),
        ("2026-11-30", datetime(2026, 11, 30, tzinfo=UTC)),
    ],
)  # fmt: skip
def test_a_query_may_begin_at_an_offset_an_age_or_a_time(text: str, position: object) -> None:
    assert parse_position(text) == position


def test_a_message_whose_headers_cannot_be_read_is_bad_and_in_its_place(monkeypatch: pytest.MonkeyPatch) -> None:
    plain = ContentHeader.encode({"n": 1, "x-stream-offset": 7})
    broken = ContentHeader(b"\x20\x00\x00\x00\x00\x09\x01n?")
    contents = [plain, broken, plain]
    messages = [StreamMessage(at, "e", "k", each, b"b") for at, each in enumerate(contents, 7)]
    monkeypatch.setattr(source, "read_range", lambda *_: iter(messages))
    settings = StreamSettings.read({"url": URL, "stream": "s"})
    items = [*read_items(settings, OffsetRange("s", 7, 10), ("headers", "offset", "source"))]
    assert [each.to_pylist() if isinstance(each, pa.RecordBatch) else each for each in items] == [
        [{"headers": [("n", {"type": "long", "value": "1"})], "offset": 7, "source": "s"}],
        Bad("s", 8, getattr(items[1], "reason", ""), b"b"),
        [{"headers": [("n", {"type": "long", "value": "1"})], "offset": 9, "source": "s"}],
    ]
