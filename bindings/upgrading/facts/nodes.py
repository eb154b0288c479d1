"""Facts about the configuration of nodes, their tools and what watches them, which no topology shows."""

from __future__ import annotations

from typing import Final

from bindings.upgrading.facts.crossing import find_broker
from bindings.upgrading.facts.fact import Fact, link_notes, link_pull_request, link_tag

FACTS: Final[tuple[Fact, ...]] = (
    Fact("HSU105", (4, 3, 0), "note", "Khepri is the only metadata store: settings of partition handling have no "
         "effect, and a cluster needs a majority of its nodes", "run three or five nodes", "release notes",
         find_broker, link_notes("4.3.0")),
    Fact("HSU201", (3, 13, 0), "note", "a node with mqtt.subscription_ttl does not start",
         "set mqtt.max_session_expiry_interval_seconds, in seconds", "release notes", find_broker,
         link_notes("3.13.0")),
    Fact("HSU202", (4, 0, 0), "note",
         "a node with mqtt.default_user, mqtt.default_pass, amqp1_0.default_user or amqp1_0.default_vhost does not "
         "start",
         "set anonymous_login_user, anonymous_login_pass and default_vhost", "observed", find_broker,
         link_notes("4.0.1")),
    Fact("HSU203", (4, 0, 0), "note",
         "a node with cluster_formation.randomized_startup_delay_range.min or .max does not start",
         "remove both", "release notes", find_broker, link_notes("4.0.1")),
    Fact("HSU204", (3, 13, 0), "note",
         "K, M and G in disk_free_limit.absolute and vm_memory_high_watermark.absolute are powers of 1000",
         "write Ki, Mi and Gi for powers of 1024", "release notes", find_broker, link_notes("3.13.0")),
    Fact("HSU205", (4, 2, 0), "note", "a node with ssl_options.cacerts or another setting *.cacerts, which had no "
         "effect, does not start", "set cacertfile", "observed", find_broker, link_notes("4.2.0")),
    Fact("HSU206", (4, 1, 4), "note",
         "a node does not start if the plugin of a configured authentication backend is not enabled",
         "enable the plugin", "release notes", find_broker, link_notes("4.1.4")),
    Fact("HSU207", (3, 10, 12), "note", "a node does not start if its definitions.local.file is invalid",
         "check the file before: hashstar check FILE", "release notes", find_broker, link_notes("3.10.12"),
         later=((3, 11, 4),)),
    Fact("HSU208", (3, 10, 8), "note", "a node accepts 65536 connections at most unless ERL_MAX_PORTS is set",
         "set ERL_MAX_PORTS for more", "release notes", find_broker, link_notes("3.10.8")),
    Fact("HSU209", (4, 3, 0), "note", "there are no RAM nodes",
         "turn them into disc nodes before khepri_db is enabled: rabbitmqctl stop_app, change_cluster_node_type disc, "
         "start_app", "release notes", find_broker, link_notes("4.3.0")),
    Fact("HSU210", (4, 3, 0), "note", "nodes do not serve rabbitmqadmin version 1 any more",
         "install rabbitmqadmin version 2", "trial", find_broker, link_notes("4.3.0")),
    Fact("HSU211", (4, 2, 6), "note", "GET /api/auth, which nothing used, is answered with 404",
         "do not ask for it", "trial", find_broker, link_notes("4.2.6")),
    Fact("HSU212", (4, 0, 6), "note", "GET /api/aliveness-test declares and publishes nothing: it shows nothing",
         "ask the health checks under /api/health/checks", "trial", find_broker, link_notes("4.0.6")),
    Fact("HSU213", (3, 11, 24), "note",
         "the management API refuses bodies of more than 10 MiB, such as definitions, with 400",
         "set management.http.max_body_size for larger definitions", "release notes", find_broker,
         link_notes("3.11.24"), later=((3, 12, 7),)),
    Fact("HSU214", (3, 13, 0), "note", "GET /api/queues leaves out metrics that were rarely used",
         "check what monitoring reads of it", "release notes", find_broker, link_notes("3.13.0")),
    Fact("HSU215", (4, 0, 0), "note", "several metrics of disk I/O are gone",
         "watch disks by the system's own metrics", "release notes", find_broker, link_notes("4.0.1")),
    Fact("HSU216", (4, 2, 0), "note", "metrics rabbitmq_raft_* have other names, and some are gone",
         "update dashboards and alerts", "release notes", find_broker, link_notes("4.2.0")),
    Fact("HSU217", (3, 13, 0), "note",
         "shovels and LDAP over TLS verify the certificate of the other side, as Erlang 26 does by default",
         "give cacertfile, or verify = verify_none", "release notes", find_broker, link_notes("3.13.0")),
    Fact("HSU218", (3, 13, 0), "note",
         "rabbitmqctl node_health_check, rename_cluster_node and update_cluster_nodes do nothing",
         "run the checks of rabbitmq-diagnostics; set a node up anew instead of renaming it", "release notes",
         find_broker, link_notes("3.13.0")),
    Fact("HSU219", (4, 2, 9), "note", "URIs of federation upstreams are checked more strictly",
         "set the upstreams of a test broker first", "release notes", find_broker, link_notes("4.2.9"),
         later=((4, 3, 3),)),
    Fact("HSU221", (4, 1, 0), "note",
         "a node with cluster_formation.etcd.ssl_options.fail_if_no_peer_cert, .dh or .dhfile does not start",
         "remove them", "release notes", find_broker, link_notes("4.1.0")),
    Fact("HSU220", (4, 2, 9), "note", "a node does not start on Erlang 26",
         "install Erlang 27 on each node before it gets the release, or with it", "release notes", find_broker,
         link_notes("4.2.9"), later=((4, 3, 3),)),
    Fact("HSU222", (4, 4, 0), "note",
         "the discovery of an OpenID Connect provider fails if it names an endpoint with http:// or an issuer that "
         "does not match the address it was asked at",
         "serve the provider's endpoints with HTTPS, and let its issuer be that address", "release notes", find_broker,
         link_tag("4.4.0")),
    Fact("HSU223", (4, 4, 0), "note",
         "an AMQP URI of a shovel or federation upstream is refused if its auth_mechanism is none of plain, amqplain, "
         "external and crdemo",
         "check the URIs before: older releases fail only when they connect", "release notes", find_broker,
         link_notes("4.4.0")),
    Fact("HSU224", (4, 4, 1), "note",
         "an export of definitions has no bindings to exclusive queues any more, and an import leaves out bindings to "
         "amq.* queues that are missing, with a warning; before, it fails because of them",
         "remove such bindings from files that older releases import", "release notes", find_broker, link_tag("4.4.1")),
    Fact("HSU225", (4, 3, 0), "note",
         "if consumer_timeout in advanced.config is no integer, such as undefined, each basic.consume and basic.get "
         "fails with 541, unless the queue or a policy sets a timeout",
         "set a number of milliseconds", "source", find_broker,
         "https://github.com/rabbitmq/rabbitmq-server/issues/16788", until=(4, 3, 3)),
    Fact("HSU226", (4, 3, 3), "note",
         "a consumer_timeout in advanced.config that is no integer, such as undefined, is one of 24 hours; before 4.3, "
         "it is none",
         "set a number of milliseconds", "release notes", find_broker, link_notes("4.3.3")),
    Fact("HSU227", (4, 2, 6), "note",
         "users without the tag policymaker may neither delete shovels nor restart federation links over the "
         "management API",
         "give it to the users that do so", "release notes", find_broker, link_notes("4.2.6")),
    Fact("HSU228", (4, 0, 0), "note",
         "a shovel reaches it over AMQP 1.0 only from a node of 3.13.7 or later",
         "upgrade the nodes that run such shovels to 3.13.7 first", "release notes", find_broker, link_notes("4.0.1")),
    Fact("HSU230", (4, 2, 7), "note",
         "a user has 32 tags at most: an import of definitions with a user of more fails, and so does adding one",
         "give such users fewer tags before: hashstar check --profile 4.2.7 names them (HS903)", "source",
         find_broker, link_pull_request(16254), later=((4, 3, 1),)),
    Fact("HSU229", (4, 2, 8), "note",
         "definitions that are uploaded as a form, as the management UI does, have a maximum size, as others have",
         "raise management.http.max_body_size for larger ones", "release notes", find_broker, link_notes("4.2.8"),
         later=((4, 3, 2),)),
    Fact("HSU231", (4, 0, 0), "note",
         "with the feature flag khepri_db, up to 4.1.3, an import of definitions fails that has a topic permission for "
         "an exchange of the same file",
         "import the topic permissions after the rest", "release notes", find_broker, link_notes("4.1.4"),
         until=(4, 1, 4)),
)  # fmt: skip
"""Each is seen once, in no part of a topology."""
