// Fills the topics of a broker in every way that shows in its log, and tells what consumers then get; or writes old
// formats of messages. JSON in, JSON out.

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.PrintStream;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Base64;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

public class Log {
    static String bootstrap;
    static Map<String, KafkaProducer<byte[], byte[]>> producers = new HashMap<>();

    public static void main(String[] arguments) throws Exception {
        PrintStream out = System.out;
        System.setOut(System.err); // of the clients' loggers
        JsonNode question = new ObjectMapper().readTree(System.in);
        bootstrap = question.get("bootstrap").asText();
        Map<String, Object> answers = new TreeMap<>();
        if (question.has("topics")) {
            create(question.get("topics"));
        }
        for (JsonNode step : question.path("steps")) {
            perform(step);
        }
        for (KafkaProducer<?, ?> producer : producers.values()) {
            producer.flush();
        }
        for (JsonNode topic : question.path("consume")) {
            Map<String, Object> read = new TreeMap<>();
            for (String level : List.of("read_committed", "read_uncommitted")) {
                read.put(level, consumed(topic.asText(), level));
            }
            answers.put(topic.asText(), read);
        }
        new ObjectMapper().writeValue(out, answers);
        out.flush();
        Runtime.getRuntime().halt(0); // an open transaction is left open
    }

    static void create(JsonNode topics) throws Exception {
        List<NewTopic> wanted = new ArrayList<>();
        topics.fields().forEachRemaining(topic -> {
            Map<String, String> settings = new HashMap<>();
            topic.getValue().fields().forEachRemaining(each -> settings.put(each.getKey(), each.getValue().asText()));
            wanted.add(new NewTopic(topic.getKey(), 1, (short) 1).configs(settings));
        });
        try (Admin admin = Admin.create(Map.of("bootstrap.servers", bootstrap))) {
            admin.createTopics(wanted).all().get();
        }
    }

    static void perform(JsonNode step) throws Exception {
        if (step.has("sleep")) {
            Thread.sleep(step.get("sleep").asLong());
            return;
        }
        KafkaProducer<byte[], byte[]> producer = producer(step.get("producer"));
        String what = step.get("do").asText();
        if (what.equals("begin")) {
            producer.beginTransaction();
        } else if (what.equals("commit")) {
            producer.commitTransaction();
        } else if (what.equals("abort")) {
            producer.flush(); // so that there is something to abort
            producer.abortTransaction();
        } else {
            for (JsonNode record : step.get("records")) {
                ProducerRecord<byte[], byte[]> sent = new ProducerRecord<>(
                    step.get("topic").asText(), 0, record.get("time").asLong(), bytes(record.get("key")), bytes(record.get("value")));
                for (JsonNode header : record.path("headers")) {
                    sent.headers().add(header.get(0).asText(), bytes(header.get(1)));
                }
                producer.send(sent);
            }
            producer.flush();
        }
    }

    /** A producer by its name, which is its settings: codec/transaction, either of them empty for none. */
    static KafkaProducer<byte[], byte[]> producer(JsonNode name) {
        return producers.computeIfAbsent(name.asText(), made -> {
            String[] parts = made.split("/", -1);
            Map<String, Object> settings = new HashMap<>(Map.of("bootstrap.servers", bootstrap, "linger.ms", 50));
            settings.put("compression.type", parts[0].isEmpty() ? "none" : parts[0]);
            if (!parts[1].isEmpty()) {
                settings.put("transactional.id", parts[1]);
            }
            KafkaProducer<byte[], byte[]> producer =
                new KafkaProducer<>(settings, new ByteArraySerializer(), new ByteArraySerializer());
            if (!parts[1].isEmpty()) {
                producer.initTransactions();
            }
            return producer;
        });
    }

    static List<Object> consumed(String topic, String level) {
        Map<String, Object> settings = Map.of("bootstrap.servers", bootstrap, "isolation.level", level);
        List<Object> read = new ArrayList<>();
        TopicPartition partition = new TopicPartition(topic, 0);
        try (KafkaConsumer<byte[], byte[]> consumer =
            new KafkaConsumer<>(settings, new ByteArrayDeserializer(), new ByteArrayDeserializer())) {
            consumer.assign(List.of(partition));
            consumer.seekToBeginning(List.of(partition));
            long end = consumer.endOffsets(List.of(partition)).get(partition);
            while (consumer.position(partition) < end) {
                for (ConsumerRecord<byte[], byte[]> record : consumer.poll(Duration.ofSeconds(1))) {
                    read.add(told(record));
                }
            }
        }
        return read;
    }

    static Map<String, Object> told(ConsumerRecord<byte[], byte[]> record) {
        Map<String, Object> told = new LinkedHashMap<>();
        told.put("offset", record.offset());
        told.put("time", record.timestamp());
        told.put("key", text(record.key()));
        told.put("value", text(record.value()));
        List<Object> headers = new ArrayList<>();
        for (Header header : record.headers()) {
            List<String> pair = new ArrayList<>();
            pair.add(header.key());
            pair.add(text(header.value()));
            headers.add(pair);
        }
        told.put("headers", headers);
        return told;
    }

    static byte[] bytes(JsonNode text) {
        return text == null || text.isNull() ? null : Base64.getDecoder().decode(text.asText());
    }

    static String text(byte[] data) {
        return data == null ? null : Base64.getEncoder().encodeToString(data);
    }
}
