import java.lang.reflect.Constructor;
import java.lang.reflect.Field;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collection;
import java.util.Deque;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
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
import org.apache.kafka.common.metrics.Metrics;
import org.apache.kafka.common.requests.MetadataResponse;
import org.apache.kafka.common.utils.Time;
import sun.misc.Unsafe;

/** Asks the RecordAccumulator of kafka-clients 3.9 and later: real batches, real sizes, real load. As Partitioners. */
public class Accumulator {
    static final int LARGE = 1 << 26;
    static RecordAccumulator accumulator;
    static Unsafe unsafe;
    static long seed;

    public static void main(String[] arguments) throws Exception {
        Field theUnsafe = Unsafe.class.getDeclaredField("theUnsafe");
        theUnsafe.setAccessible(true);
        unsafe = (Unsafe) theUnsafe.get(null);
        seed = unsafe.objectFieldOffset(Thread.class.getDeclaredField("threadLocalRandomSeed"));
        ThreadLocalRandom.current();
        String question = new String(System.in.readAllBytes(), StandardCharsets.UTF_8);
        Matcher commands = Pattern.compile("\"([^\"]*)\"").matcher(question);
        List<String> answers = new ArrayList<>();
        while (commands.find()) {
            answers.add(answer(commands.group(1).split(" ")));
        }
        System.out.println(answers);
    }

    static String answer(String[] words) throws Exception {
        switch (words[0]) {
            case "new": // batch size, availability timeout, rack
                make(Integer.parseInt(words[1]), Long.parseLong(words[2]), words.length > 3 ? words[3] : null);
                return "null";
            case "append": // partitions, the partition or -1, bytes of the value
                return append(cluster(words[1]), Integer.parseInt(words[2]), Integer.parseInt(words[3]));
            case "sent": // partition: all its batches
                accumulator.getDeque(new TopicPartition("t", Integer.parseInt(words[1]))).clear();
                return "null";
            case "latency": // broker, time, whether it can take batches
                accumulator.updateNodeLatencyStats(Integer.parseInt(words[1]), Long.parseLong(words[2]),
                    Boolean.parseBoolean(words[3]));
                return "null";
            case "ready": // partitions: looks for batches to send, and so takes the load
                return ready(cluster(words[1]));
            default:
                throw new IllegalArgumentException(words[0]);
        }
    }

    static void make(int batchSize, long timeout, String rack) throws Exception {
        Metrics metrics = new Metrics();
        Class<?> configClass = Class.forName(RecordAccumulator.class.getName() + "$PartitionerConfig");
        Object config = null;
        for (Constructor<?> constructor : configClass.getConstructors()) {
            if (constructor.getParameterCount() >= 2) {
                Object[] all = {true, timeout, rack != null, rack};
                config = constructor.newInstance(Arrays.copyOf(all, constructor.getParameterCount()));
            }
        }
        for (Constructor<?> constructor : RecordAccumulator.class.getConstructors()) {
            Class<?>[] types = constructor.getParameterTypes();
            if (!Arrays.asList(types).contains(configClass)) {
                continue;
            }
            Object[] values = new Object[types.length];
            for (int at = 0; at < types.length; at++) {
                Class<?> type = types[at];
                values[at] = type == int.class ? (at == 1 ? (Object) batchSize : (Object) 1000)
                    : type == long.class ? (Object) 100L
                    : type == configClass ? config
                    : type == Compression.class ? Compression.NONE
                    : type == Metrics.class ? metrics
                    : type == String.class ? "producer"
                    : type == Time.class ? Time.SYSTEM
                    : type == BufferPool.class ? new BufferPool(LARGE, batchSize, metrics, Time.SYSTEM, "producer")
                    : type.getSimpleName().equals("TransactionManager") ? null
                    : type.getConstructor().newInstance();
            }
            accumulator = (RecordAccumulator) constructor.newInstance(values);
        }
    }

    /**
     * The partition, the draws, the bytes by which its batches grew, whether those of the partition before were full, or
     * its last one had no room for the record, and whether those of the partition are full now.
     */
    static String append(Cluster cluster, int partition, int size) throws Exception {
        Object info = sticky();
        int partitionBefore = info == null ? -1 : (Integer) call(info, "partition");
        boolean before = info != null && full(partitionBefore);
        ProducerBatch batch = before || info == null ? null
            : accumulator.getDeque(new TopicPartition("t", partitionBefore)).peekLast();
        int records = batch == null ? 0 : (Integer) field(batch, "recordCount");
        Method append = null;
        for (Method method : RecordAccumulator.class.getMethods()) {
            append = method.getName().equals("append") ? method : append;
        }
        Class<?> callbacks = append.getParameterTypes()[6];
        int[] chosen = {-1};
        Object callback = java.lang.reflect.Proxy.newProxyInstance(callbacks.getClassLoader(), new Class<?>[] {callbacks},
            (proxy, method, values) -> {
                if (method.getName().equals("setPartition")) {
                    chosen[0] = (Integer) values[0];
                }
                return null;
            });
        Object headers = java.lang.reflect.Array.newInstance(append.getParameterTypes()[5].getComponentType(), 0);
        List<Object> values = new ArrayList<>(Arrays.asList(
            "t", partition, 0L, null, new byte[size], headers, callback, 1000L, 0L, cluster));
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
        Field appended = result.getClass().getDeclaredField("appendedBytes");
        appended.setAccessible(true);
        boolean noRoom = batch != null && batch.isFull() && (Integer) field(batch, "recordCount") == records;
        return "[" + chosen[0] + ", " + draws + ", " + appended.get(result) + ", " + before + ", " + noRoom + ", "
            + full(chosen[0]) + "]";
    }

    static Object sticky() throws Exception {
        try {
            return call(field(accumulator.getBuiltInPartitioner("t"), "stickyPartitionInfo"), "get");
        } catch (NullPointerException | InvocationTargetException error) {
            return null; // nothing was appended yet
        }
    }

    static boolean full(int partition) throws Exception {
        Deque<?> batches = accumulator.getDeque(new TopicPartition("t", partition));
        return batches == null || (Boolean) call(accumulator, "allBatchesFull", batches);
    }

    /** Batches by partition, null or what is drawn from: the running sums, the partitions. */
    static String ready(Cluster cluster) throws Exception {
        List<String> queues = new ArrayList<>();
        for (int partition = 0; partition < 100; partition++) {
            Deque<?> batches = accumulator.getDeque(new TopicPartition("t", partition));
            if (batches != null) {
                queues.add("[" + partition + ", " + batches.size() + "]");
            }
        }
        Map<Integer, Node> nodes = new HashMap<>();
        for (Node node : cluster.nodes()) {
            nodes.put(node.id(), node);
        }
        accumulator.ready(new MetadataSnapshot("cluster", nodes, List.<MetadataResponse.PartitionMetadata>of(), Set.of(),
            Set.of(), Set.of(), null, Map.of(), cluster), 0);
        Object partitioner = accumulator.getBuiltInPartitioner("t");
        Object stats;
        try {
            Object holder = field(partitioner, "partitionLoadStatsHolder");
            Object near = holder == null ? null : field(holder, "inThisRack");
            stats = near != null && (Integer) field(near, "length") > 0 ? near
                : holder == null ? null : field(holder, "total");
        } catch (NoSuchFieldException before) {
            stats = field(partitioner, "partitionLoadStats");
        }
        if (stats == null) {
            return "[" + queues + ", null]";
        }
        int length = (Integer) field(stats, "length");
        int[] sums = Arrays.copyOf((int[]) field(stats, "cumulativeFrequencyTable"), length);
        int[] ids = Arrays.copyOf((int[]) field(stats, "partitionIds"), length);
        return "[" + queues + ", [" + Arrays.toString(sums) + ", " + Arrays.toString(ids) + "]]";
    }

    static Cluster cluster(String partitions) {
        Collection<Node> nodes = new HashSet<>();
        List<PartitionInfo> infos = new ArrayList<>();
        for (String text : partitions.split(",")) {
            String[] parts = text.split("@");
            int id = Integer.parseInt(parts[0].replace("!", ""));
            Node leader = new Node(id, "host", 9092, parts.length > 1 ? parts[1] : null);
            nodes.add(leader);
            infos.add(new PartitionInfo("t", id, text.contains("!") ? null : leader, new Node[0], new Node[0]));
        }
        return new Cluster("cluster", nodes, infos, Set.of(), Set.of());
    }

    static Object call(Object target, String name, Object... arguments) throws Exception {
        for (Class<?> type = target.getClass(); type != null; type = type.getSuperclass()) {
            for (Method method : type.getDeclaredMethods()) {
                if (method.getName().equals(name) && method.getParameterCount() == arguments.length) {
                    method.setAccessible(true);
                    return method.invoke(target, arguments);
                }
            }
        }
        throw new NoSuchMethodException(name);
    }

    static Object field(Object target, String name) throws Exception {
        Field field = target.getClass().getDeclaredField(name);
        field.setAccessible(true);
        return field.get(target);
    }
}
