import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HexFormat;
import java.util.List;
import java.util.UUID;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
import org.apache.kafka.clients.producer.Partitioner;
import org.apache.kafka.common.Cluster;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.PartitionInfo;
import org.apache.kafka.common.utils.Bytes;

/**
 * Asks the partitioner that tutorials write, Math.abs(key.hashCode()) % number of partitions, for keys of Java's types.
 * Standard input is a JSON list of "TYPE HEX COUNT", HEX the UTF-16 of a text or the bytes; standard output is the list
 * of hashes and partitions, one after the other.
 */
public class HashCodes {
    static class ByHashCode implements Partitioner {
        public int partition(String topic, Object key, byte[] keyBytes, Object value, byte[] valueBytes, Cluster cluster) {
            return Math.abs(key.hashCode()) % cluster.partitionsForTopic(topic).size();
        }

        public void close() {}

        public void configure(java.util.Map<String, ?> configs) {}
    }

    public static void main(String[] arguments) throws Exception {
        String question = new String(System.in.readAllBytes(), StandardCharsets.UTF_8);
        Matcher asked = Pattern.compile("\"([^\"]*)\"").matcher(question);
        List<Integer> answers = new ArrayList<>();
        while (asked.find()) {
            String[] words = asked.group(1).split(" ", -1);
            byte[] data = HexFormat.of().parseHex(words[1]);
            Object key = key(words[0], data);
            answers.add(key.hashCode());
            answers.add(new ByHashCode().partition("t", key, data, null, null, cluster(Integer.parseInt(words[2]))));
        }
        System.out.println(answers);
    }

    static Object key(String type, byte[] data) {
        String text = new String(data, StandardCharsets.UTF_16BE);
        switch (type) {
            case "string": return text;
            case "integer": return Integer.valueOf(text);
            case "long": return Long.valueOf(text);
            case "short": return Short.valueOf(text);
            case "byte": return Byte.valueOf(text);
            case "float": return Float.valueOf(text);
            case "double": return Double.valueOf(text);
            case "boolean": return Boolean.valueOf(text);
            case "character": return Character.valueOf(text.charAt(0));
            case "uuid": return UUID.fromString(text);
            case "bytes": return Bytes.wrap(data);
            case "byte_buffer": return ByteBuffer.wrap(data);
            default: throw new IllegalArgumentException(type);
        }
    }

    static Cluster cluster(int count) {
        Node node = new Node(1, "host", 9092);
        List<PartitionInfo> partitions = IntStream.range(0, count)
            .mapToObj(number -> new PartitionInfo("t", number, node, null, null)).collect(Collectors.toList());
        return new Cluster("cluster", List.of(node), partitions, java.util.Set.of(), java.util.Set.of());
    }
}
