"""Facts about what applications do, and what no topology shows."""

from __future__ import annotations

from typing import Final

from bindings.upgrading.facts.crossing import find_broker
from bindings.upgrading.facts.fact import Fact, link_notes, link_pull_request

__all__ = ["FACTS"]

FACTS: Final[tuple[Fact, ...]] = (
    Fact("HSU101", (4, 0, 0), "note", "an unknown exchange type is answered with 406 on the channel, no longer with "
         "503 on the connection", "expect PRECONDITION_FAILED in clients", "trial", find_broker),
    Fact("HSU102", (4, 0, 0), "note", "a message may have 16 MiB at most, no longer 128 MiB",
         "set max_message_size for larger ones", "trial", find_broker, link_notes("4.0.1")),
    Fact("HSU103", (4, 1, 0), "note", "clients that set frame_max below 8192 cannot connect",
         "leave frame_max to the server; use amqplib for Node.js 0.10.7 or later", "trial", find_broker,
         link_notes("4.1.0")),
    Fact("HSU104", (4, 3, 0), "note", "basic.qos with global = true sets the prefetch of each consumer, no longer that "
         "of the channel", "set a prefetch per consumer, or deprecated_features.permit.global_qos = true",
         "trial", find_broker, link_notes("4.3.0"), feature="global_qos"),
    Fact("HSU106", (4, 0, 0), "note",
         "AMQP 1.0 has addresses of version 2, such as /queues/NAME; those of version 1 are deprecated",
         "use addresses of version 2", "release notes", find_broker, link_notes("4.0.1"), until=(4, 3, 0)),
    Fact("HSU107", (4, 3, 0), "note", "AMQP 1.0 addresses of version 1 are refused",
         "use addresses of version 2, such as /queues/NAME, or set deprecated_features.permit.amqp_address_v1 = true",
         "release notes", find_broker, link_notes("4.3.0")),
    Fact("HSU108", (4, 0, 0), "note",
         "an AMQP 1.0 message must have a body, and its annotations and footer only symbols that begin with x-",
         "change publishers that send no body or set other annotations", "release notes", find_broker,
         link_notes("4.0.1")),
    Fact("HSU109", (4, 2, 0), "note", "an AMQP 1.0 message without a header section is not durable",
         "set durable = true in publishers", "release notes", find_broker, link_notes("4.2.0")),
    Fact("HSU110", (4, 3, 0), "note",
         "the filters of an AMQP 1.0 source must be described types, as the specification has it",
         "update AMQP 1.0 clients, or set deprecated_features.permit.amqp_filter_set_bug = true", "release notes",
         find_broker, link_notes("4.3.0")),
    Fact("HSU111", (4, 1, 0), "note", "an MQTT packet may have 16 MiB at most, no longer 256 MiB",
         "set mqtt.max_packet_size_authenticated, up to max_message_size", "release notes", find_broker,
         link_notes("4.1.0")),
    Fact("HSU112", (3, 12, 2), "note", "a STOMP frame may have 4 MiB at most", "set stomp.max_frame_size",
         "release notes", find_broker, link_notes("3.12.2")),
    Fact("HSU113", (4, 2, 0), "note",
         "an answer to a direct reply-to whose requester has left counts as routed: mandatory returns it no longer",
         "do not wait for basic.return to learn that a requester has left", "trial", find_broker,
         link_notes("4.2.0")),
    Fact("HSU115", (4, 2, 6), "note",
         "a passive declaration is refused with 403 to a user without any permission for the name; 4.2.6 and 4.3.0 "
         "refuse it to one without that to configure",
         "give users that ask whether a queue or exchange exists the permission to read, and leave out 4.2.6 and 4.3.0",
         "trial", find_broker, link_notes("4.2.7")),
    Fact("HSU116", (3, 11, 0), "note",
         "a virtual host may have a default queue type, which a declaration without x-queue-type gets",
         "declare x-queue-type where the type counts", "trial", find_broker, link_notes("3.11.0")),
    Fact("HSU117", (4, 0, 0), "note",
         "every queue has x-queue-type among its arguments in exports and the management API",
         "expect it where definitions are compared as text; hashstar diff takes them for the same", "trial",
         find_broker),
    Fact("HSU118", (4, 3, 0), "note",
         "what one client declared may be unknown on another node for a moment: Khepri answers when a majority of the "
         "nodes knows it",
         "wait before other connections publish to a new queue", "release notes", find_broker, link_notes("3.13.0")),
    Fact("HSU119", (3, 13, 7), "note", "an MQTT connection whose OAuth 2 token expires is closed",
         "connect anew with a new token before that", "release notes", find_broker, link_notes("3.13.7")),
    Fact("HSU120", (4, 3, 5), "note",
         "a connection of the stream protocol has 256 publishers and 256 subscriptions at most",
         "open another connection for more", "release notes", find_broker, link_notes("4.3.5")),
    Fact("HSU121", (3, 12, 0), "note", "messages to MQTT subscribers' queues have no header x-mqtt-dup",
         "do not read it", "release notes", find_broker, link_notes("3.12.0")),
    Fact("HSU122", (4, 1, 0), "note", "an AMQP 1.0 connection whose OAuth 2 token expires is closed",
         "use clients that renew their tokens", "release notes", find_broker, link_notes("4.1.0")),
    Fact("HSU123", (4, 4, 0), "note",
         "the headers x-amqp-1.0-properties, -app-properties, -message-annotations and -footer of messages that 3.13 "
         "or older stored are headers like others: they no longer become sections of AMQP 1.0",
         "consume what is that old before the upgrade, if AMQP 1.0 clients read it", "release notes", find_broker,
         link_notes("4.4.0")),
    Fact("HSU124", (4, 4, 0), "note",
         "the delivery mode, priority and expiration of messages that 3.13 or older wrote to a stream are lost when it "
         "is read", "do not read them of old entries", "release notes", find_broker, link_notes("4.4.0")),
    Fact("HSU125", (4, 4, 0), "note",
         "x-name-prefix, of at most 64 bytes, begins the name of a queue that the broker names, in place of amq.gen; "
         "before 4.4 it has no effect",
         "check permissions, policies and patterns that rely on amq.gen where clients set it", "source", find_broker,
         link_pull_request(16233)),
    Fact("HSU126", (4, 3, 0), "note",
         "STOMP subscriptions that had a transient queue of their own have an exclusive one",
         "do not read such a queue over another connection", "release notes", find_broker, link_notes("4.3.0")),
    Fact("HSU127", (4, 2, 9), "note", "a super stream has 1,000 partitions at most",
         "set stream.max_super_stream_partitions for more", "release notes", find_broker, link_notes("4.2.9"),
         later=((4, 3, 3),)),
    Fact("HSU128", (4, 3, 5), "note",
         "before its connection is open, a client of the stream protocol may send frames of 8192 bytes at most",
         "set stream.initial_frame_max for larger ones, such as those of long tokens", "release notes", find_broker,
         link_notes("4.3.5")),
    Fact("HSU129", (4, 3, 5), "note",
         "a batch of sub-entries that is published to a stream may have 64 MiB at most, uncompressed",
         "set stream.max_uncompressed_sub_entry_batch_size, and the same in clients", "release notes", find_broker,
         link_notes("4.3.5")),
    Fact("HSU130", (4, 3, 5), "note",
         "MQTT 5.0 packets with a property that is not valid for them are refused, and so is a Receive Maximum of 0",
         "update clients that send them", "release notes", find_broker, link_notes("4.3.5")),
    Fact("HSU131", (4, 2, 6), "note",
         "frames over WebSockets have a maximum size by default, in Web MQTT and Web STOMP, lower before a client has "
         "connected",
         "raise the maximum size of the plugin's packets or frames for larger ones", "release notes", find_broker,
         link_notes("4.2.6")),
    Fact("HSU132", (4, 2, 6), "note",
         "a binding to amq.rabbitmq.reply-to is refused; before, it is accepted and does nothing",
         "remove the binding from applications", "release notes", find_broker, link_notes("4.2.6")),
)  # fmt: skip
"""Each is seen once, in no part of a topology."""
