import java.lang.reflect.Constructor;
import java.lang.reflect.Field;
import java.lang.reflect.Method;
import java.lang.reflect.Proxy;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Deque;
import java.util.ArrayDeque;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.concurrent.ThreadLocalRandom;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.apache.kafka.clients.ClientRequest;
import org.apache.kafka.clients.ClientResponse;
import org.apache.kafka.clients.KafkaClient;
import org.apache.kafka.clients.Metadata;
import org.apache.kafka.clients.MetadataSnapshot;
import org.apache.kafka.clients.RequestCompletionHandler;
import org.apache.kafka.clients.producer.internals.BufferPool;
import org.apache.kafka.clients.producer.internals.ProducerBatch;
import org.apache.kafka.clients.producer.internals.ProducerMetadata;
import org.apache.kafka.clients.producer.internals.RecordAccumulator;
import org.apache.kafka.clients.producer.internals.Sender;
import org.apache.kafka.clients.producer.internals.SenderMetricsRegistry;
import org.apache.kafka.common.Cluster;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.PartitionInfo;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.compress.Compression;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.internals.RecordHeader;
import org.apache.kafka.common.metrics.Metrics;
import org.apache.kafka.common.requests.AbstractRequest;
import org.apache.kafka.common.requests.MetadataResponse;
import org.apache.kafka.common.utils.Time;
import sun.misc.Unsafe;

/**
 * Asks the RecordAccumulator of kafka-clients 3.9 and later for whole runs: records of all sizes by a clock of ours,
 * the search for ready brokers, the batches that each takes. Or its Sender does both, whenever it would wake up, on
 * brokers that answer in a given time. As Partitioners.
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
    static Sender sender;
    static Method runOnce;
    static ProducerMetadata metadata;
    /** Broker -> milliseconds until it answers; broker -> when the requests to it are answered, with their handlers. */
    static Map<String, Long> roundTrips;
    static TreeMap<String, Deque<Map.Entry<Long, ClientRequest>>> underWay;
    static long wakesUp;
    static boolean worksOn;

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
                work(Long.parseLong(words[1]));
                return "null";
            case "sender": // node:milliseconds,...
                makeSender(words[1]);
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

    /** Let the sender work at each time when it wakes up, until this one. */
    static void work(long until) throws Exception {
        while (sender != null) {
            long next = wakesUp;
            for (Deque<Map.Entry<Long, ClientRequest>> requests : underWay.values()) {
                next = requests.isEmpty() ? next : Math.min(next, requests.peekFirst().getKey());
            }
            if (next > until) {
                break;
            }
            clock = next;
            runSender();
        }
        clock = until;
    }

    /** What the sender does now: it works on as long as it would not wait. */
    static void runSender() throws Exception {
        takeAnswers();
        do {
            worksOn = false;
            runOnce.invoke(sender);
        } while (worksOn);
    }

    static boolean takeAnswers() {
        boolean any = false;
        for (Deque<Map.Entry<Long, ClientRequest>> requests : underWay.values()) {
            while (!requests.isEmpty() && requests.peekFirst().getKey() <= clock) {
                ClientRequest request = requests.pollFirst().getValue();
                request.callback().onComplete(new ClientResponse(request.makeHeader((short) 9), request.callback(),
                    request.destination(), request.createdTimeMs(), clock, false, null, null, null));
                any = true;
            }
        }
        return any;
    }

    static void makeSender(String text) throws Exception {
        roundTrips = new HashMap<>();
        underWay = new TreeMap<>();
        wakesUp = Long.MAX_VALUE;
        for (String item : text.split(",")) {
            String[] parts = item.split(":");
            roundTrips.put(parts[0], Long.parseLong(parts[1]));
            underWay.put(parts[0], new ArrayDeque<>());
        }
        Object client = Proxy.newProxyInstance(KafkaClient.class.getClassLoader(), new Class<?>[] {KafkaClient.class},
            (proxy, method, values) -> {
                switch (method.getName()) {
                    case "ready":
                        return underWay.get(((Node) values[0]).idString()).size() < 5;
                    case "pollDelayMs":
                        return Long.MAX_VALUE;
                    case "newClientRequest":
                        return new ClientRequest((String) values[0], (AbstractRequest.Builder<?>) values[1], 0, "",
                            clock, false, 1000, (RequestCompletionHandler) values[5]);
                    case "send":
                        ClientRequest request = (ClientRequest) values[0];
                        long answered = clock + roundTrips.get(request.destination());
                        underWay.get(request.destination()).add(Map.entry(answered, request));
                        return null;
                    case "poll":
                        long timeout = (Long) values[0];
                        worksOn = takeAnswers() || timeout == 0;
                        wakesUp = timeout > Long.MAX_VALUE - clock ? Long.MAX_VALUE : clock + timeout;
                        return List.of();
                    default:
                        return method.getReturnType() == boolean.class ? (Object) true
                            : method.getReturnType() == int.class ? (Object) 0 : null;
                }
            });
        Metrics metrics = new Metrics();
        metadata = (ProducerMetadata) fill(ProducerMetadata.class.getConstructors()[0], new ArrayDeque<>(List.of()));
        Deque<Object> ints = new ArrayDeque<>(List.of(1_048_576, 0, Integer.MAX_VALUE));
        sender = (Sender) fill(Sender.class.getConstructors()[0], ints, client, metadata, accumulator,
            new SenderMetricsRegistry(metrics));
        runOnce = Sender.class.getDeclaredMethod("runOnce");
        runOnce.setAccessible(true);
        open(Metadata.class.getDeclaredField("metadataSnapshot")).set(metadata, snapshot());
    }

    /** Call a constructor with the values that fit its types, these ints in turn, and defaults. */
    static Object fill(Constructor<?> constructor, Deque<Object> ints, Object... known) throws Exception {
        Class<?>[] types = constructor.getParameterTypes();
        Object[] values = new Object[types.length];
        for (int at = 0; at < types.length; at++) {
            Class<?> type = types[at];
            for (Object value : known) {
                values[at] = type.isInstance(value) ? value : values[at];
            }
            if (values[at] == null && !type.getSimpleName().equals("TransactionManager")) {
                values[at] = type == int.class ? ints.poll()
                    : type == short.class ? (Object) (short) 0
                    : type == long.class ? (Object) 100L
                    : type == boolean.class ? (Object) false
                    : type == Time.class ? time()
                    : type.getConstructor().newInstance();
            }
        }
        return constructor.newInstance(values);
    }

    static Object time() {
        return Proxy.newProxyInstance(Time.class.getClassLoader(), new Class<?>[] {Time.class},
            (proxy, method, values) -> method.getName().equals("milliseconds") ? (Object) clock
                : method.getReturnType() == long.class ? (Object) (clock * 1_000_000L) : null);
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
        Object time = time();
        sender = null;
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
        if (sender != null && (batchIsFull.getBoolean(result) || newBatchCreated.getBoolean(result))) {
            runSender(); // it is woken up
        }
        return "[" + chosen + ", " + draws + ", " + appendedBytes.get(result) + ", " + batchIsFull.get(result) + ", "
            + newBatchCreated.get(result) + (sender == null ? "" : ", " + requests()) + "]";
    }

    /** The number of requests under way to each broker. */
    static String requests() {
        List<Integer> counts = new ArrayList<>();
        underWay.values().forEach(requests -> counts.add(requests.size()));
        return counts.toString();
    }

    static MetadataSnapshot snapshot() {
        return new MetadataSnapshot("cluster", nodes, List.<MetadataResponse.PartitionMetadata>of(), Set.of(), Set.of(),
            Set.of(), null, Map.of(), cluster);
    }

    /** The brokers that have batches to take, and the milliseconds until the sender looks again, -1 for never. */
    static String ready() {
        RecordAccumulator.ReadyCheckResult result = accumulator.ready(snapshot(), clock);
        Set<Integer> ready = new TreeSet<>();
        for (Node node : result.readyNodes) {
            ready.add(node.id());
        }
        long delay = result.nextReadyCheckDelayMs;
        return "[" + ready + ", " + (delay == Long.MAX_VALUE ? -1 : delay) + "]";
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
