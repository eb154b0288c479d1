"""Make the topics that bridge.toml names: the bridge makes none."""

from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

TOPICS = {"shop-billing": 3, "shop-audit": 12, "shop-lost-and-found": 1}

admin = AdminClient({"bootstrap.servers": "kafka:9092", "log_level": 0})
known = admin.list_topics(timeout=60).topics
wanted = [NewTopic(name, partitions, 1) for name, partitions in TOPICS.items() if name not in known]
for name, made in admin.create_topics(wanted).items() if wanted else ():
    made.result()
    print(f"made {name}, partitions: {TOPICS[name]}")
