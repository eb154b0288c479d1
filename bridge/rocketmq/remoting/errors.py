"""Errors between a client and RocketMQ's servers; each corresponds to an exception of the Java client."""

from __future__ import annotations

from typing import ClassVar

from bridge.rocketmq.remoting.codes import find_response_name
from exchange.errors import HashstarError


class RemotingError(HashstarError):
    """A request was not answered, or refused (`org.apache.rocketmq.remoting.exception.RemotingException`)."""

    exception: ClassVar[str] = "RemotingException"
    """Exception that the Java client throws: a row of `exchange.partition.clients.rocketmq.send.EXCEPTIONS`."""


class ConnectError(RemotingError):
    """No connection could be made; the message names the address."""

    exception = "RemotingConnectException"


class SendRequestError(RemotingError):
    """The connection was lost before the answer came: it is not known whether the server has executed the request."""

    exception = "RemotingSendRequestException"


class RemotingTimeout(RemotingError):
    """The answer did not come in time: it is not known whether the server has executed the request."""

    exception = "RemotingTimeoutException"


class TooMuchRequest(RemotingError):
    """The time for all tries was over before another one; or more messages are under way than are allowed."""

    exception = "RemotingTooMuchRequestException"


class CommandError(RemotingError):
    """Data that came is no command of the protocol, or a request cannot be encoded as one."""


class BrokerError(RemotingError):
    """A server refused a request (`MQBrokerException`); ``code`` is one of `ResponseCode`.

    The text has the first line of the server's remark: below, a refused condition has all that could stand there.
    """

    exception = "MQBrokerException"

    def __init__(self, code: int, remark: str | None, address: str = "") -> None:
        self.code = code
        self.remark = remark or ""
        self.address = address
        where = f"{address}: " if address else ""
        why = next(iter(self.remark.splitlines()), "")
        super().__init__(f"{where}{find_response_name(code)} ({code}){': ' if why else ''}{why}")


class ClientError(RemotingError):
    """The client itself cannot execute a request (`MQClientException`): no route, no broker, no queue."""

    exception = "MQClientException"

    def __init__(self, message: str, code: int = -1) -> None:
        self.code = code
        super().__init__(message)
