"""AMQP 0-9-1 field tables, content headers and methods, to the bit.

`fields` is the codec of values and tables. `content` is the header of a message: bytes that can be edited without
decoding the rest. `methods` has all methods as a table, `frames` what frames consist of. `lazy` builds messages that
are decoded on first use, `view` those that cost least to route. Pure: bytes in, values out.
"""

from exchange.amqp.content import ContentHeader
from exchange.amqp.fields import MalformedHeader, Repeated, Spelled, decode_table, encode_table
from exchange.amqp.lazy import LazyHeaders, Properties, build_lazy_message, get_content
from exchange.amqp.view import MessageView

__all__ = [
    "ContentHeader", "LazyHeaders", "MalformedHeader", "MessageView", "Properties", "Repeated", "Spelled",
    "get_content", "decode_table", "encode_table", "build_lazy_message",
]  # fmt: skip
