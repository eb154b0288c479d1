"""The table of all rules that a topology can break.

Codes are stable: a suppression written today means the same tomorrow, and a number is never used for another rule.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import Final, Literal, NamedTuple

from exchange.text.site import build_page_address

Severity = Literal["note", "warning", "error"]
"""The levels of SARIF: an error is certainly wrong, a warning is most likely wrong, a note is worth knowing."""

SEVERITIES: Final[tuple[Severity, ...]] = ("note", "warning", "error")
"""From the least severe to the most severe."""
NEVER: Final = "never"
"""In place of the lowest severity that fails a check or an upgrade: none does."""


class Rule(NamedTuple):
    """A rule that a topology can break: the kind of a finding."""

    code: str
    name: str
    severity: Severity
    meaning: str
    """What a finding of this rule means, in a sentence or two for a reader who never saw one."""
    way_out: str
    """What the owner can do about it."""
    optional: bool = False
    """Whether the rule applies only when the user selects its code, since many sound topologies break it."""

    @property
    def page(self) -> str:
        """Address of the page about the rule in the documentation."""
        return build_page_address(f"findings/{self.code}")


TABLE: Final = (
    # 1xx: bindings
    Rule("HS101", "missing-source", "error",
         "A binding is from an exchange that does not exist. RabbitMQ refuses it, and a whole import of definitions "
         "with it; old releases, such as 3.10, import the rest and leave it out without a word.",
         "declare the exchange, or remove the binding"),
    Rule("HS102", "missing-destination", "error",
         "A binding leads to a queue or exchange that does not exist. RabbitMQ refuses it, and a whole import of "
         "definitions with it; old releases, such as 3.10, import the rest and leave it out without a word.",
         "declare the destination, or remove the binding"),
    Rule("HS103", "duplicate-binding", "warning",
         "Two bindings of the same exchange and destination match the same messages, as '#.*' and '*.#' do. A queue "
         "gets one copy of a message however many bindings lead there.",
         "remove one of them"),
    Rule("HS104", "covered-binding", "warning",
         "Another binding of the same exchange and destination matches everything that this one matches, so this one "
         "decides nothing.",
         "remove it, or narrow the wider one if that takes more than it should"),
    Rule("HS105", "covered-together", "warning",
         "Other bindings of the same exchange and destination together match everything that this one matches, so "
         "this one decides nothing.",
         "remove it, or narrow those that take more than they should"),
    Rule("HS106", "covered-through-exchanges", "warning",
         "All that this binding matches also gets to its destination by way of other exchanges, so this one decides "
         "nothing.",
         "remove it, unless it is there for the day when the other way goes"),
    Rule("HS107", "wildcard-in-direct", "warning",
         "A direct exchange compares routing keys byte for byte: in its bindings '*' and '#' are no wildcards.",
         "make the exchange a topic exchange, or spell the keys out"),
    Rule("HS108", "ignored-key", "note",
         "A fanout or headers exchange takes no notice of routing keys, neither of the binding's nor of the message's.",
         'leave the key of the binding "", or use a topic exchange if the key is to count'),
    Rule("HS109", "ignored-arguments", "warning",
         "The binding has an 'x-match', but only a headers exchange looks at the arguments of bindings.",
         "make the exchange a headers exchange, or remove the arguments"),
    Rule("HS110", "starved-binding", "warning",
         "Nobody can publish to an internal exchange, and no key that is led into this one matches the binding. (With "
         "further keys in CC or BCC, one key can open the way for another.)",
         "remove the binding, or let its keys into the exchange"),
    Rule("HS111", "needless-way", "warning",
         "The binding leads to another exchange, but no queue gets a message because of it: what matches it is passed "
         "on to none there, or to those that have it anyway. (With further keys in CC or BCC, one key can open the way "
         "for another.)",
         "remove it, or bind what it was meant to feed"),
    Rule("HS190", "undecided", "note",
         "Whether other bindings cover this one would cost too many steps to find out; it may be needed or not.",
         "use fewer '#' in the patterns of this destination"),
    Rule("HS112", "left-out-binding", "note",
         "A binding leads to a queue amq.* that does not exist. Imports leave it out since 4.4.1; older ones fail.",
         "nothing, if the client that owns the queue makes both again; else remove the binding"),
    # 2xx: reach
    Rule("HS201", "exchange-without-exit", "note",
         "No queue can be reached from the exchange, so every message published to it is dropped, or returned if it "
         "is mandatory. That is as it should be where consumers bind queues of their own while they run.",
         "bind a queue, give it an alternate exchange, or remove it"),
    Rule("HS202", "dead-end", "warning",
         "Bindings, alternates or dead letters lead into an exchange from which no queue can be reached: what goes "
         "there is lost, but for dead letters of quorum queues with the strategy at-least-once, which wait in their "
         "queue.",
         "bind a queue to it, or remove the way in"),
    Rule("HS203", "unreachable-exchange", "warning",
         "The exchange is internal, so that nobody can publish to it, and nothing leads to it.",
         "bind it to another exchange, or remove it"),
    Rule("HS204", "queue-without-bindings", "note",
         "No binding leads to the queue: messages come by the default exchange only, which takes the name of a queue "
         "as routing key.",
         "nothing, if producers address it by name or a shovel or plugin fills it; else bind or remove it"),
    Rule("HS205", "unroutable-key", "note",
         "A message with this routing key, and without headers, that is published to the exchange gets to no queue. "
         "Most topic and direct exchanges have such keys on purpose.",
         "bind a queue for it, or give the exchange an alternate exchange that takes everything",
         optional=True),
    Rule("HS206", "cycle", "note",
         "Exchanges are bound in a circle. RabbitMQ allows that: each of them routes a message once.",
         "nothing, if each is to pass on what any of them gets; else remove the binding that closes the circle"),
    Rule("HS207", "self-binding", "warning",
         "An exchange is bound to itself. RabbitMQ lets each exchange route a message once, so this delivers nothing; "
         "but what matches it no longer goes to the alternate exchange.",
         "remove it"),
    # 3xx: alternates and dead letters
    Rule("HS301", "missing-alternate", "error",
         "The alternate exchange does not exist. RabbitMQ does not complain: it drops what would go there.",
         "declare it, or correct its name"),
    Rule("HS302", "leaky-alternate", "warning",
         "A message that no binding matches goes to the alternate exchange, and there no binding matches it either, "
         "so it is lost all the same. An alternate exchange routes by the message's own key.",
         "make the alternate exchange a fanout, or bind a queue to it that takes everything: '#' if it is a topic"),
    Rule("HS303", "bypassed-alternate", "warning",
         "A binding leads to another exchange where the message is lost. The alternate exchange does not get it: it "
         "is taken only when no binding of its own exchange matches.",
         "give the exchange that loses it an alternate exchange, too, or narrow the binding that leads there"),
    Rule("HS304", "alternate-never-taken", "warning",
         "Every message matches a binding of the exchange itself, so that its alternate exchange is never taken.",
         "remove the alternate exchange, or narrow the bindings that take everything"),
    Rule("HS305", "circle-of-alternates", "warning",
         "Alternate exchanges name each other in a circle, or one names itself. Each routes a message once: what "
         "none of them takes is lost.",
         "let the last of them be one that takes everything"),
    Rule("HS306", "alternate-twice", "note",
         "A policy names one alternate exchange and the exchange's argument another. The argument counts.",
         "remove one of them; a policy can be changed later, an argument only by declaring the exchange anew"),
    Rule("HS307", "delayed-to-alternate", "warning",
         "The exchange looks at no binding before the delay of a message is over, so each delayed message goes to the "
         "alternate exchange at once, and to its own queues later.",
         "delay messages in an exchange without an alternate; bind a queue to it for what no other binding takes"),
    Rule("HS311", "missing-dead-letter-exchange", "error",
         "The dead letter exchange that an argument or a policy names does not exist. RabbitMQ does not complain: it "
         "drops dead letters; those that must arrive at least once it keeps in the queue.",
         "declare it, or correct its name"),
    Rule("HS312", "lost-dead-letters", "warning",
         "Dead letters of the queue get a routing key, or keep one, that no queue gets from the dead letter exchange: "
         "they are lost, or pile up in the queue if they must arrive at least once.",
         "bind a queue for the key, or correct it"),
    Rule("HS313", "dead-letters-at-most-once", "warning",
         "The queue asks for dead letters at least once but does not reject publishes when it is full. RabbitMQ then "
         "forwards dead letters at most once, and only logs that.",
         "set overflow to reject-publish"),
    Rule("HS314", "circle-of-expiry", "warning",
         "Queues that expire messages hand their dead letters round, and no other queue gets them. RabbitMQ ends such "
         "a circle: a message that comes back to a queue where it has expired, without having been rejected, is "
         "dropped without a word.",
         "take the time to live off the queue that consumers read, or send its dead letters to a queue that keeps "
         "them"),
    # 32x: lives of messages
    Rule("HS321", "endless-round", "warning",
         "A message can go round through dead letters for ever, and nothing makes it wait: each queue on the round "
         "hands it on at once when it is rejected. RabbitMQ drops a message that comes back only if it was not "
         "rejected. A message that consumers cannot process keeps them and the broker busy until somebody removes it.",
         "send the dead letters of one of the queues to a queue that keeps them, or let messages wait on the way, in a "
         "queue with a time to live, and count them in x-death"),
    Rule("HS322", "comes-back-when-rejected", "note",
         "A message that is rejected comes back to the queue that rejected it after it has waited in another one. That "
         "is how retries with a pause are built. RabbitMQ does not end them: a message that is always rejected comes "
         "back for ever.",
         "nothing, if consumers read the number of tries in x-death and give up after some; else send dead letters to "
         "a queue that keeps them"),
    Rule("HS323", "vanishing-messages", "note",
         "Messages can end in the queue without a trace: no other queue gets them. Most queues without a dead letter "
         "exchange are so on purpose.",
         "set a dead letter exchange, with a queue that keeps what it gets",
         optional=True),
    Rule("HS324", "many-tries", "note",
         "A message can be given back to the queue, and delivered again, more than 20 times. A message that makes "
         "consumers fail can so keep them from all others.",
         "use a quorum queue with an x-delivery-limit of 20 or less and a dead letter exchange; consumers that give "
         "messages back with basic.nack, which RabbitMQ does not count since 4.3, should use basic.reject",
         optional=True),
    Rule("HS325", "retry-reaches-others", "warning",
         "A message that is rejected comes back by way of an exchange that is bound to other queues, too. Queues that "
         "got it when it was published get it again with each retry: their consumers handle it several times.",
         'send what has waited back to its queue alone: dead-letter it to the default exchange ("") with the name of '
         "the queue as routing key, or to an exchange of its own"),
    Rule("HS326", "not-modelled", "note",
         "RabbitMQ has the setting and check knows its rules, but what it does is left out where the life of a message "
         "is followed: in explain --life, VirtualBroker, the test server, and HS321 to HS327.",
         "nothing, if what it does decides no test or question; else ask a broker"),
    Rule("HS327", "retries-stop-the-queue", "warning",
         "Messages that wait for a delayed retry count for the limits of a quorum queue, but it cannot drop them. Once "
         "they alone are over a limit, and the queue drops from its head, RabbitMQ looks for ever for one to drop: the "
         "queue answers nobody any more, and a processor is busy with it.",
         "set x-overflow = reject-publish, or no limit; or let messages wait in another queue, by dead letters"),
    # 4xx: patterns
    Rule("HS401", "zero-words", "note",
         "'#' stands for zero words, too: 'x.#' also matches 'x'. Another binding of the exchange asks for that key, "
         "so it may well be published.",
         "nothing, if the queue is to have it; else write 'x.*.#', which wants one word more"),
    Rule("HS402", "literal-wildcard", "warning",
         "'*' and '#' are wildcards only as a whole word between dots: 'a#b', 'x*' and '##' match nothing but "
         "themselves.",
         "separate the wildcard by a dot, or match whole words"),
    Rule("HS403", "empty-word", "warning",
         "The key begins or ends with a dot or has two in a row, which makes an empty word: 'a.' and 'a' are "
         "different keys.",
         "remove the dot"),
    Rule("HS404", "too-many-wildcards", "error",
         "RabbitMQ refuses topic bindings with more than two '#' since 4.3.5. Those that are there already go on "
         "routing.",
         "use fewer '#'; often one at each end will do"),
    Rule("HS405", "too-long", "error",
         "A routing key or name of more than 255 bytes does not fit into AMQP 0-9-1, so nothing can carry it.",
         "shorten it; bytes count, not characters"),
    Rule("HS406", "foreign-wildcard", "warning",
         "The pattern looks like one of MQTT or NATS. AMQP separates words by dots, and its wildcards are '*' for one "
         "word and '#' for any number; '+' and '>' match themselves.",
         "write it as AMQP has it: 'sensor/+/#' is 'sensor.*.#', and '>' is '*.#'"),
    Rule("HS407", "white-space", "warning",
         "A word of the key begins or ends with white space, which counts as any other character.",
         "remove the white space"),
    Rule("HS408", "case-differs", "note",
         "Keys of the same exchange differ in upper and lower case only. RabbitMQ takes them for different keys.",
         "nothing, if publishers send both; else write them alike"),
    # 5xx: headers
    Rule("HS501", "never-matches", "warning",
         "No message can match the binding: 'any' of no headers is none, and RabbitMQ takes BCC out before it routes "
         "and refuses a CC that is no array.",
         "add the headers that are meant, or remove the binding"),
    Rule("HS502", "always-matches", "note",
         "The binding asks for no header, so that it matches every message, those without headers included.",
         "nothing, if the destination is to have everything; else add the headers that are meant"),
    Rule("HS503", "ignored-header", "warning",
         "With x-match all or any, arguments that begin with 'x-' are ignored.",
         "use all-with-x or any-with-x, or another name for the header"),
    Rule("HS504", "misspelt-x-match", "warning",
         "The argument reads much like 'x-match' but is not: it is taken for a header or ignored, and the binding "
         "wants all of its headers.",
         "write 'x-match'"),
    Rule("HS505", "types-differ", "note",
         "Bindings ask one header for values that look alike but are of different types, as the number 1 and the "
         "string '1'. RabbitMQ holds them different (since 3.13 also 1 and 1.0).",
         "ask for the type that publishers send"),
    Rule("HS506", "timestamp-condition", "warning",
         "Since 3.13, RabbitMQ compares a message's timestamp in milliseconds with the binding's in seconds, so that "
         "equal ones do not match.",
         "ask for an integer: the time in milliseconds"),
    # 6xx: kinds of exchanges
    Rule("HS601", "unknown-type", "warning",
         "The type of the exchange is neither built into RabbitMQ nor known here: how it routes is undecided.",
         "make sure that the plugin is enabled on the broker"),
    Rule("HS602", "refused-exchange", "error",
         "RabbitMQ refuses to declare this exchange.",
         "correct what the message names"),
    Rule("HS603", "refused-binding", "error",
         "RabbitMQ refuses this binding.",
         "correct what the message names"),
    Rule("HS604", "ignored-weight", "warning",
         "A consistent hash exchange has one place for each destination: of several bindings of the same destination "
         "the first counts, and the weights of the others are ignored.",
         "keep one binding, with the sum of the weights"),
    Rule("HS605", "refused-queue", "error",
         "RabbitMQ refuses to declare this queue: an argument is not valid, or its type does not have it. An import of "
         "definitions is refused, too; but a queue with x-queue-master-locator is left out by 4.3, without a word.",
         "correct what the message names, or name the release that is meant with --profile"),
    Rule("HS606", "argument-without-effect", "warning",
         "RabbitMQ accepts the argument, and nothing reads it: its name is misspelt, the type of the queue or exchange "
         "or the release ignores it, or its value has no effect.",
         "correct what the message names, or remove the argument"),
    Rule("HS607", "unknown-argument", "note",
         "No release of RabbitMQ knows the argument, so it has no effect on the broker.",
         "nothing, if an application or a plugin reads it; else correct or remove it"),
    Rule("HS608", "commercial-edition", "warning",
         "The type of the queue, or the setting of the policy, is one of Tanzu RabbitMQ. RabbitMQ itself refuses it.",
         "nothing, if the broker is of that edition; else remove it, or declare a queue of another type"),
    Rule("HS609", "unusable-queue", "error",
         "RabbitMQ has the queue, and each channel that consumes or gets from it crashes with 541, which closes its "
         "connection: since 4.3, x-consumer-timeout must be an integer. Before, any other value turns the timeout off.",
         "declare the queue anew with an integer, in milliseconds"),
    Rule("HS610", "odd-value", "warning",
         "RabbitMQ accepts a value that it does not mean, such as a text, a fraction or a number below the least, and "
         "makes something else of it, which the message says. To remove it changes what becomes of messages.",
         "give a positive integer, or remove it if what counts without it is meant"),
    # 7xx: policies
    Rule("HS701", "bad-expression", "error",
         "RabbitMQ refuses the pattern of the policy, which is no regular expression for PCRE, and a whole import of "
         "definitions with it.",
         "correct it"),
    Rule("HS702", "unused-policy", "note",
         "The policy matches no exchange or queue that there is. It may be for some that come and go.",
         "remove it, or correct its pattern or what it applies to"),
    Rule("HS703", "shadowed-policy", "warning",
         "Wherever the policy matches, another one of higher priority is in force. Policies do not add up: of those "
         "that match, one counts.",
         "remove it, raise its priority, or move its definition into the other one"),
    Rule("HS704", "equal-priority", "warning",
         "Policies of the same priority match the same name. Which of them counts is not defined.",
         "give them different priorities, or patterns that do not meet"),
    Rule("HS705", "unknown-apply-to", "error",
         "The policy applies to something that the release does not know. RabbitMQ refuses it, and a whole import of "
         "definitions with it.",
         "use all, exchanges, queues, classic_queues, quorum_queues or streams"),
    Rule("HS706", "unknown-expression", "warning",
         "Whether the pattern of the policy matches a name is not known here: it uses a construct of PCRE that is not "
         "understood, releases of Erlang differ in it, or matching it may exceed the broker's limit. Routes that "
         "depend on it are undecided.",
         "write a simpler pattern: anchors, classes, groups, alternatives and quantifiers are understood"),
    Rule("HS707", "refused-policy", "error",
         "RabbitMQ refuses the settings of this policy: a value is not valid, or the release does not know them. "
         "Those of mirrored queues, ha-*, are gone since 4.0.",
         "correct what the message names, or name the release that is meant with --profile"),
    Rule("HS708", "unsupported-setting", "warning",
         "The policy has a setting that the type of these queues does not support. RabbitMQ then does not apply the "
         "policy to them at all: its other settings are not in force either.",
         "make a policy of its own of the setting, or limit the policy to a type: classic_queues, quorum_queues, "
         "streams"),
    Rule("HS709", "setting-without-effect", "warning",
         "The policy applies, but this setting does nothing there: the type of queues or the release ignores it or its "
         "value, or it needs another setting.",
         "correct what the message names, or remove the setting"),
    # 8xx: expectations
    Rule("HS801", "failed-expectation", "error",
         "What is expected of a message does not come true.",
         "correct the topology, or the expectation"),
    # 81x: applications
    Rule("HS811", "lost-task", "error",
         "What a Celery app sends for this task reaches no queue, and is lost silently: no worker runs the task. "
         "Celery does not publish with mandatory.",
         "bind the queue of its workers for the routing key of the task, or route the task elsewhere"),
    Rule("HS812", "misrouted-task", "warning",
         "The messages of a Celery task get to other queues than those that its route, decorator, call or entry of "
         "beat's schedule names: that routing key is not bound to the queue, or also to others, or Celery drops it. "
         "Each queue gets a copy: the task runs elsewhere, or more than once.",
         "correct the routing key, or the bindings of the exchange; where the exchange is direct, name the queue"),
    Rule("HS813", "unknown-task-queue", "error",
         "Sending a Celery task raises an error, mostly QueueNotFound: its route names a queue that is not in "
         "task_queues, and task_create_missing_queues is off.",
         "add the queue to task_queues, or correct its name in the route"),
    Rule("HS814", "undeclared-task-queue", "warning",
         "The route of a Celery task names a queue that is not in task_queues, often since it is misspelt. Celery "
         "makes such a queue, and workers that are started without -Q do not consume from it: its tasks wait for ever.",
         "add the queue to task_queues, or correct its name; set task_create_missing_queues to False to make it an "
         "error"),
    Rule("HS815", "unused-task-route", "note",
         "An entry of task_routes decides about no task of the app: it matches none, or earlier entries decide about "
         "those that it matches. In one dictionary, names go before patterns, and patterns in their order.",
         "correct the pattern, move it to the front, or remove it; an entry for tasks of other apps is as it should "
         "be"),
    Rule("HS816", "refused-declaration", "error",
         "The broker refuses what an application declares when it starts or publishes, and closes the channel. Often "
         "two places declare one name with different arguments.",
         "declare it alike everywhere, or correct what the message names"),
    # 9xx: the file
    Rule("HS901", "file", "note",
         "RabbitMQ's import would skip or refuse something in the file, or read it otherwise.",
         "change it so that both read it alike"),
    Rule("HS902", "not-read", "warning",
         "A part of the source was not read, or a plugin makes it in the broker: a field or kind that is not known "
         "here, a value that only another program can compute. So nothing is proved of what is not there: the part "
         "that is missing may be what leads a message to a queue.",
         "give a form that has everything, such as the definitions of a broker or a plan of Terraform, or correct the "
         "name; --allow-unread looks at the rest"),
    Rule("HS903", "refused-entry", "error",
         "RabbitMQ's import refuses this entry, and the whole file with it: rabbitmqctl import_definitions fails "
         "half way, and a node that is to load the file at boot (load_definitions) does not start; one of 3.10 starts "
         "with a part of the file, without a word.",
         "correct what the message names, or name the release that is meant with --profile"),
    Rule("HS904", "imported-otherwise", "warning",
         "RabbitMQ's import takes the file, but not as it is written: it leaves an entry out, gives a queue another "
         "type, or of several entries with one name any may count. Or an entry names a user or virtual host that the "
         "file does not declare: a broker that does not have it refuses the file.",
         "write what the broker is to have, once, and declare what entries name"),
)  # fmt: skip

RULES: Final = MappingProxyType({rule.code: rule for rule in TABLE})
"""Code -> rule."""

ABSENCES: Final = frozenset({
    "HS101", "HS102", "HS110", "HS112", "HS702", *(code for code in RULES if code.startswith(("HS20", "HS3"))),
}) - {"HS206", "HS207", "HS326", "HS327"}  # fmt: skip
"""Codes of findings that rest on what is *not* there: none is proved of a topology of which parts are missing."""
