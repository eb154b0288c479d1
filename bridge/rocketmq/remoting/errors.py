"""What goes wrong between a client and RocketMQ's servers, each named as the Java client's exception it stands for."""

from __future__ import annotations

from typing import ClassVar

from bridge.rocketmq.remoting.codes import response_name
from exchange.errors import HashstarError

__all__ = [
    "BrokerError", "ClientError", "CommandError", "ConnectError", "RemotingError", "RemotingTimeout",
    "SendRequestError", "TooMuchRequest",
]  # fmt: skip


class RemotingError(HashstarError):
    """A request was not answered, or not as hoped (`org.apache.rocketmq.remoting.exception.RemotingException`)."""

    exception: ClassVar[str] = "RemotingException"
    """What the Java client throws: a row of `exchange.partition.clients.rocketmq.send.EXCEPTIONS`."""


class ConnectError(RemotingError):
    """No connection could be had; the message names the address."""

    exception = "RemotingConnectException"


class SendRequestError(RemotingError):
    """The connection was lost before the answer came: whether the server has done what was asked is not known."""

    exception = "RemotingSendRequestException"


class RemotingTimeout(RemotingError):
    """The answer did not come in time: whether the server has done what was asked is not known."""

    exception = "RemotingTimeoutException"


class TooMuchRequest(RemotingError):
    """The time for all tries was over before one more could be made; or more is under way than is allowed."""

    exception = "RemotingTooMuchRequestException"


class CommandError(RemotingError):
    """What came is no command of the protocol, or what was to be sent cannot be written as one."""


class BrokerError(RemotingError):
    """A server answered that it did not do it (`MQBrokerException`); ``code`` is one of `ResponseCode`."""

    exception = "MQBrokerException"

    def __init__(self, code: int, remark: str | None, address: str = "") -> None:
        self.code = code
        self.remark = remark or ""
        self.address = address
        where = f"{address}: " if address else ""
        super().__init__(f"{where}{response_name(code)} ({code}){': ' if remark else ''}{self.remark}")


class ClientError(RemotingError):
    """The client cannot do it with what it knows (`MQClientException`): no route, no broker, no queue."""

    exception = "MQClientException"

    def __init__(self, message: str, code: int = -1) -> None:
        self.code = code
        super().__init__(message)
