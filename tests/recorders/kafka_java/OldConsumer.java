// Prints the records of topics as the consumer of Kafka 0.10 reads them, one a line: topic, offset, time, kind of time,
// key and value in base64 (- for none). Arguments are the address of a broker and the topics.

import java.io.PrintStream;
import java.util.Base64;
import java.util.Collections;
import java.util.HashMap;
import java.util.Map;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

public class OldConsumer {
    public static void main(String[] arguments) {
        PrintStream out = new PrintStream(System.out, false);
        Map<String, Object> settings = new HashMap<>();
        settings.put("bootstrap.servers", arguments[0]);
        try (KafkaConsumer<byte[], byte[]> consumer =
                new KafkaConsumer<>(settings, new ByteArrayDeserializer(), new ByteArrayDeserializer())) {
            for (int n = 1; n < arguments.length; n++) {
                TopicPartition partition = new TopicPartition(arguments[n], 0);
                consumer.assign(Collections.singletonList(partition));
                consumer.seekToEnd(Collections.singletonList(partition));
                long end = consumer.position(partition);
                consumer.seekToBeginning(Collections.singletonList(partition));
                while (consumer.position(partition) < end) {
                    for (ConsumerRecord<byte[], byte[]> read : consumer.poll(1000)) {
                        out.println(read.topic() + " " + read.offset() + " " + read.timestamp() + " "
                            + read.timestampType().name + " " + text(read.key()) + " " + text(read.value()));
                    }
                }
            }
        }
        out.flush();
    }

    static String text(byte[] data) {
        return data == null ? "-" : "=" + Base64.getEncoder().encodeToString(data);
    }
}
