import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Base64;
import java.util.List;
import java.util.Properties;
import java.util.concurrent.Future;
import java.util.stream.Collectors;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * Sends records with Kafka's own producer to the topics of the property "topics" (commas between them) at "bootstrap".
 *
 * In: a JSON list of keys, each in base64 or null. The value of each record is its key's place in that list. Out: a JSON
 * list for each topic, of the partitions that the broker acknowledged, in the order of the keys.
 */
public final class Produce {
    public static void main(String[] arguments) throws Exception {
        List<byte[]> keys = keys();
        Properties properties = new Properties();
        properties.put("bootstrap.servers", System.getProperty("bootstrap"));
        properties.put("enable.idempotence", "true");
        properties.put("key.serializer", ByteArraySerializer.class.getName());
        properties.put("value.serializer", ByteArraySerializer.class.getName());
        List<String> answers = new ArrayList<>();
        try (KafkaProducer<byte[], byte[]> producer = new KafkaProducer<>(properties)) {
            for (String topic : System.getProperty("topics").split(",")) {
                List<Future<RecordMetadata>> sent = new ArrayList<>();
                for (int place = 0; place < keys.size(); place++) {
                    byte[] value = Integer.toString(place).getBytes(StandardCharsets.US_ASCII);
                    sent.add(producer.send(new ProducerRecord<>(topic, keys.get(place), value)));
                }
                List<String> partitions = new ArrayList<>();
                for (Future<RecordMetadata> future : sent) {
                    partitions.add(Integer.toString(future.get().partition()));
                }
                answers.add(partitions.stream().collect(Collectors.joining(",", "[", "]")));
            }
        }
        System.out.println(answers.stream().collect(Collectors.joining(",", "[", "]")));
    }

    private static List<byte[]> keys() throws IOException {
        String text = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.US_ASCII)).readLine();
        List<byte[]> keys = new ArrayList<>();
        // Neither base64 nor null has a comma or a quotation mark in it.
        for (String key : text.substring(1, text.length() - 1).split(", ")) {
            keys.add(key.equals("null") ? null : Base64.getDecoder().decode(key.replace("\"", "")));
        }
        return keys;
    }
}
