"""RocketMQ's selectors: which messages a consumer gets, by their tags or by a SQL92 filter on their properties.

They take any mapping of properties; `properties_of` returns those of an AMQP message.

>>> Selector.parse("region = 'eu' AND price > 10")({"region": "eu", "price": "12"})
True
>>> Tags.parse("paid || shipped")({"TAGS": "refunded"})
False
"""

from exchange.selector.amqp import properties_of
from exchange.selector.meaning import SelectorFailure
from exchange.selector.reading import SelectorError
from exchange.selector.selector import RELEASES, Selector
from exchange.selector.tags import Tags, tag_code

__all__ = ["RELEASES", "Selector", "SelectorError", "SelectorFailure", "Tags", "properties_of", "tag_code"]
