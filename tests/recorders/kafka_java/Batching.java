import java.lang.reflect.Constructor;
import java.lang.reflect.Field;
import java.lang.reflect.Method;
import java.lang.reflect.Proxy;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Deque;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import java.util.concurrent.ThreadLocalRandom;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.apache.kafka.clients.MetadataSnapshot;
import org.apache.kafka.clients.producer.internals.BufferPool;
import org.apache.kafka.clients.producer.internals.ProducerBatch;
import org.apache.kafka.clients.producer.internals.RecordAccumulator;
import org.apache.kafka.common.Cluster;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.PartitionInfo;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.compress.Compression;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.internals.RecordHeader;
import org.apache.kafka.common.metrics.Metrics;
import org.apache.kafka.common.requests.MetadataResponse;
import org.apache.kafka.common.utils.Time;
import sun.misc.Unsafe;

/**
 * Asks the RecordAccumulator of kafka-clients 3.9 and later for whole runs: records of all sizes by a clock of ours,
 * the search for ready brokers, the batches that each takes. As Partitioners.
 */
public class Batching {
    static final long MEMORY = 1L << 32;
    static RecordAccumulator accumulator;
    static Cluster cluster;
    static Map<Integer, Node> nodes;
    static Unsafe unsafe;
    static long seed;
    static long clock;
    static Method append;
    static Object callback;
    static Field appendedBytes;
    static Field batchIsFull;
    static Field newBatchCreated;
    static Field recordCount;
    static int chosen;

    public static void main(String[] arguments) throws Exception {
        Field theUnsafe = Unsafe.class.getDeclaredField("theUnsafe");
        theUnsafe.setAccessible(true);
        unsafe = (Unsafe) theUnsafe.get(null);
        seed = unsafe.objectFieldOffset(Thread.class.getDeclaredField("threadLocalRandomSeed"));
        ThreadLocalRandom.current();
        for (Method method : RecordAccumulator.class.getMethods()) {
            append = method.getName().equals("append") ? method : append;
        }
        Class<?> callbacks = append.getParameterTypes()[6];
        callback = Proxy.newProxyInstance(callbacks.getClassLoader(), new Class<?>[] {callbacks},
            (proxy, method, values) -> {
                if (method.getName().equals("setPartition")) {
                    chosen = (Integer) values[0];
                }
                return null;
            });
        Class<?> result = append.getReturnType();
        appendedBytes = open(result.getDeclaredField("appendedBytes"));
        batchIsFull = open(result.getDeclaredField("batchIsFull"));
        newBatchCreated = open(result.getDeclaredField("newBatchCreated"));
        recordCount = open(ProducerBatch.class.getDeclaredField("recordCount"));
        String question = new String(System.in.readAllBytes(), StandardCharsets.UTF_8);
        Matcher commands = Pattern.compile("\"([^\"]*)\"").matcher(question);
        StringBuilder answers = new StringBuilder("[");
        while (commands.find()) {
            answers.append(answers.length() > 1 ? ", " : "").append(answer(commands.group(1).split(" ")));
        }
        System.out.println(answers.append("]"));
    }

    static String answer(String[] words) throws Exception {
        switch (words[0]) {
            case "new": // batch size, linger, adaptive, availability timeout, rack
                make(Integer.parseInt(words[1]), Integer.parseInt(words[2]), Boolean.parseBoolean(words[3]),
                    Long.parseLong(words[4]), words.length > 5 ? words[5] : null);
                return "null";
            case "cluster": // topic/partition:node@rack of each, - for no node
                describe(words[1]);
                return "null";
            case "clock": // milliseconds
                clock = Long.parseLong(words[1]);
                return "null";
            case "append": // topic, partition or -1, sizes of key and value or -1, number of headers, timestamp
                return append(words[1], Integer.parseInt(words[2]), Integer.parseInt(words[3]),
                    Integer.parseInt(words[4]), Integer.parseInt(words[5]), Long.parseLong(words[6]));
            case "ready":
                return ready();
            case "drain": // node, bytes
                return drain(Integer.parseInt(words[1]), Integer.parseInt(words[2]));
            case "latency": // node, whether it can take batches
                accumulator.updateNodeLatencyStats(Integer.parseInt(words[1]), clock, Boolean.parseBoolean(words[2]));
                return "null";
            case "mute": // topic/partition
                accumulator.mutePartition(partition(words[1]));
                return "null";
            case "unmute":
                accumulator.unmutePartition(partition(words[1]));
                return "null";
            case "flush":
                accumulator.beginFlush();
                return "null";
            default:
                throw new IllegalArgumentException(words[0]);
        }
    }

    static void make(int batchSize, int linger, boolean adaptive, long timeout, String rack) throws Exception {
        Metrics metrics = new Metrics();
        Class<?> configClass = Class.forName(RecordAccumulator.class.getName() + "$PartitionerConfig");
        Object config = null;
        for (Constructor<?> constructor : configClass.getConstructors()) {
            if (constructor.getParameterCount() >= 2) {
                Object[] all = {adaptive, timeout, rack != null, rack};
                config = constructor.newInstance(Arrays.copyOf(all, constructor.getParameterCount()));
            }
        }
        Object time = Proxy.newProxyInstance(Time.class.getClassLoader(), new Class<?>[] {Time.class},
            (proxy, method, values) -> method.getName().equals("milliseconds") ? (Object) clock
                : method.getReturnType() == long.class ? (Object) (clock * 1_000_000L) : null);
        for (Constructor<?> constructor : RecordAccumulator.class.getConstructors()) {
            Class<?>[] types = constructor.getParameterTypes();
            if (!Arrays.asList(types).contains(configClass)) {
                continue;
            }
            int ints = 0;
            Object[] values = new Object[types.length];
            for (int at = 0; at < types.length; at++) {
                Class<?> type = types[at];
                values[at] = type == int.class ? (Object) new int[] {batchSize, linger, Integer.MAX_VALUE}[ints++]
                    : type == long.class ? (Object) 100L
                    : type == configClass ? config
                    : type == Compression.class ? Compression.NONE
                    : type == Metrics.class ? metrics
                    : type == String.class ? "producer"
                    : type == Time.class ? time
                    : type == BufferPool.class ? new BufferPool(MEMORY, batchSize, metrics, (Time) time, "producer")
                    : type.getSimpleName().equals("TransactionManager") ? null
                    : type.getConstructor().newInstance();
            }
            accumulator = (RecordAccumulator) constructor.newInstance(values);
        }
    }

    static void describe(String text) {
        nodes = new HashMap<>();
        List<PartitionInfo> infos = new ArrayList<>();
        for (String item : text.split(",")) {
            String[] parts = item.split("[/:@]");
            Node leader = parts[2].equals("-") ? null
                : new Node(Integer.parseInt(parts[2]), "host", 9092, parts.length > 3 ? parts[3] : null);
            if (leader != null) {
                nodes.put(leader.id(), leader);
            }
            infos.add(new PartitionInfo(parts[0], Integer.parseInt(parts[1]), leader, new Node[0], new Node[0]));
        }
        cluster = new Cluster("cluster", new LinkedHashSet<>(nodes.values()), infos, Set.of(), Set.of());
    }

    /** The partition, the draws, the bytes by which its batches grew, whether one is full, whether one is new. */
    static String append(String topic, int partition, int key, int value, int headers, long timestamp)
        throws Exception {
        Header[] all = new Header[headers];
        for (int at = 0; at < headers; at++) {
            all[at] = new RecordHeader("h\u00e9".repeat(at + 1), at % 2 == 1 ? null : new byte[at * 40]);
        }
        List<Object> values = new ArrayList<>(Arrays.asList(topic, partition, timestamp,
            key < 0 ? null : new byte[key], value < 0 ? null : new byte[value], all, callback, 0L, clock, cluster));
        if (append.getParameterCount() == 11) {
            values.add(8, false); // abortOnNewBatch
        }
        Thread thread = Thread.currentThread();
        long start = unsafe.getLong(thread, seed);
        Object result = append.invoke(accumulator, values.toArray());
        long end = unsafe.getLong(thread, seed);
        unsafe.putLong(thread, seed, start);
        List<Integer> draws = new ArrayList<>();
        while (unsafe.getLong(thread, seed) != end) {
            draws.add(ThreadLocalRandom.current().nextInt() & 0x7fffffff);
            if (draws.size() > 10000) {
                throw new IllegalStateException("the draws cannot be found out");
            }
        }
        return "[" + chosen + ", " + draws + ", " + appendedBytes.get(result) + ", " + batchIsFull.get(result) + ", "
            + newBatchCreated.get(result) + "]";
    }

    static MetadataSnapshot snapshot() {
        return new MetadataSnapshot("cluster", nodes, List.<MetadataResponse.PartitionMetadata>of(), Set.of(), Set.of(),
            Set.of(), null, Map.of(), cluster);
    }

    /** The brokers that have batches to take. */
    static String ready() {
        Set<Integer> ready = new TreeSet<>();
        for (Node node : accumulator.ready(snapshot(), clock).readyNodes) {
            ready.add(node.id());
        }
        return ready.toString();
    }

    /** The batches that a broker takes: topic, partition, bytes, records. */
    static String drain(int node, int bytes) throws Exception {
        List<String> drained = new ArrayList<>();
        Node broker = nodes.getOrDefault(node, new Node(node, "host", 9092));
        Map<Integer, List<ProducerBatch>> batches = accumulator.drain(snapshot(), Set.of(broker), bytes, clock);
        for (ProducerBatch batch : batches.get(node)) {
            TopicPartition of = (TopicPartition) open(ProducerBatch.class.getDeclaredField("topicPartition")).get(batch);
            drained.add("[\"" + of.topic() + "\", " + of.partition() + ", " + batch.records().sizeInBytes() + ", "
                + recordCount.get(batch) + "]");
            accumulator.deallocate(batch);
        }
        return drained.toString();
    }

    static TopicPartition partition(String text) {
        String[] parts = text.split("/");
        return new TopicPartition(parts[0], Integer.parseInt(parts[1]));
    }

    static Field open(Field field) {
        field.setAccessible(true);
        return field;
    }
}
