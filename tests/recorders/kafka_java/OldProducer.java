// Fills topics by the producer of a Kafka before 0.11: arguments are the address of a broker, how many records each topic
// gets, and topics as NAME=CODEC. Each topic gets the same records, of which one in 16 has no key (but in compacted
// topics, where brokers demand one) and one in 8 no value.

import java.lang.reflect.Constructor;
import java.util.HashMap;
import java.util.Map;
import java.util.Random;
import java.util.concurrent.Future;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.ByteArraySerializer;

public class OldProducer {
    static final long FIRST = 1_400_000_000_000L;

    public static void main(String[] arguments) throws Exception {
        for (int n = 2; n < arguments.length; n++) {
            String[] topic = arguments[n].split("=");
            fill(arguments[0], topic[0], topic[1], Integer.parseInt(arguments[1]));
        }
    }

    static void fill(String broker, String topic, String codec, int count) throws Exception {
        Map<String, Object> settings = new HashMap<>();
        settings.put("bootstrap.servers", broker);
        settings.put("compression.type", codec);
        settings.put("linger.ms", 20);
        settings.put("batch.size", 2000);
        Random random = new Random(codec.hashCode());
        try (KafkaProducer<byte[], byte[]> producer =
                new KafkaProducer<>(settings, new ByteArraySerializer(), new ByteArraySerializer())) {
            for (int n = 0; n < count; n++) {
                byte[] key = n % 16 == 7 && !topic.startsWith("compacted") ? null : ("k" + random.nextInt(9)).getBytes();
                byte[] value = n % 8 == 3 ? null : new byte[random.nextInt(n % 50 == 0 ? 900 : 40)];
                if (value != null) {
                    random.nextBytes(value);
                    java.util.Arrays.fill(value, 0, value.length / 2, (byte) n); // so that half of it can be packed
                }
                Future<?> sent = producer.send(record(topic, FIRST + n * 7L, key, value));
                if (n % 1000 < 10) {
                    sent.get(); // so that some batches are small
                }
            }
        }
    }

    /** A record with its own time where the release has one: since 0.10. */
    static ProducerRecord<byte[], byte[]> record(String topic, long time, byte[] key, byte[] value) throws Exception {
        for (Constructor<?> made : ProducerRecord.class.getConstructors()) {
            if (made.getParameterCount() == 5) {
                @SuppressWarnings("unchecked")
                ProducerRecord<byte[], byte[]> record =
                    (ProducerRecord<byte[], byte[]>) made.newInstance(topic, 0, time, key, value);
                return record;
            }
        }
        return new ProducerRecord<>(topic, 0, key, value);
    }
}
