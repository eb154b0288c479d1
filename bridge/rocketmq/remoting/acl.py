"""Signatures of requests for brokers with access control: HMAC-SHA1 over the fields and the body.

RocketMQ 4.4 to 5.x check it the same way (`org.apache.rocketmq.acl.common.AclClientRPCHook`, `AclUtils`): the values of
all fields in the order of their names, one after the other, then the body. Names and remark are not signed.
"""

from __future__ import annotations

from base64 import b64encode
from dataclasses import dataclass, field
from hashlib import sha1
from hmac import digest

from bridge.rocketmq.remoting.command import Command
from exchange.partition.hashing.java import encode_code_units

ACCESS_KEY = "AccessKey"
SECURITY_TOKEN = "SecurityToken"  # noqa: S105 - the name of a field
SIGNATURE = "Signature"


@dataclass(frozen=True, slots=True)
class Credentials:
    """The keys of a user (`org.apache.rocketmq.acl.common.SessionCredentials`)."""

    access_key: str
    secret_key: str = field(repr=False)
    security_token: str | None = field(default=None, repr=False)

    def sign(self, command: Command) -> Command:
        """Return the request with the access key and a signature by the secret key."""
        fields = {name: value for name, value in command.fields.items() if name != SIGNATURE}
        fields[ACCESS_KEY] = self.access_key
        if self.security_token is not None:
            fields[SECURITY_TOKEN] = self.security_token
        values = "".join([fields[name] for name in sorted(fields, key=encode_code_units)])
        signed = values.encode("utf-8", "replace") + command.body
        fields[SIGNATURE] = b64encode(digest(self.secret_key.encode(), signed, sha1)).decode()
        return command._replace(fields=fields)
