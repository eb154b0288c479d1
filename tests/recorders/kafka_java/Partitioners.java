import java.lang.reflect.Constructor;
import java.lang.reflect.Field;
import java.lang.reflect.Method;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.Cluster;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.PartitionInfo;
import org.apache.kafka.common.serialization.StringSerializer;
import org.apache.kafka.common.utils.Utils;
import sun.misc.Unsafe;

/**
 * Asks the partitioners of any kafka-clients from 0.8.2 on. Standard input is a JSON list of commands, standard output
 * the list of their answers. Partitions are written "2!,0,1@rack@host": in this order, those with a ! without a leader.
 */
public class Partitioners {
    static final String PRODUCER = "org.apache.kafka.clients.producer.";
    static Object partitioner;
    static int last;

    public static void main(String[] arguments) throws Exception {
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
            case "text":
                byte[] units = HexFormat.of().parseHex(words[1]);
                StringBuilder text = new StringBuilder(); // code unit by code unit: a decoder replaces lone surrogates
                for (int at = 0; at < units.length; at += 2) {
                    text.append((char) ((units[at] & 0xff) << 8 | units[at + 1] & 0xff));
                }
                return keyed(new StringSerializer().serialize("topic", text.toString()), words[2]);
            case "bytes":
                return keyed(HexFormat.of().parseHex(words[1]), words[2]);
            case "new":
                partitioner = make(words);
                return "null";
            case "counter": // of a topic, or of all
                Field field = field(partitioner, words[2].equals("*") ? "counter" : "topicCounterMap");
                AtomicInteger counter = new AtomicInteger(Integer.parseInt(words[1]));
                if (words[2].equals("*")) {
                    ((AtomicInteger) field.get(partitioner)).set(counter.get());
                } else {
                    @SuppressWarnings("unchecked")
                    Map<String, AtomicInteger> counters = (Map<String, AtomicInteger>) field.get(partitioner);
                    counters.put(words[2], counter);
                }
                return "null";
            case "choose":
                return drawn(() -> choose(words[1], cluster(words[1], words[2])));
            case "again": // what was chosen last needs a new batch, so that the producer asks a second time
                return drawn(() -> {
                    call(partitioner, "onNewBatch", words[1], cluster(words[1], words[2]), last);
                    return choose(words[1], cluster(words[1], words[2]));
                });
            case "batch":
                return drawn(() -> call(partitioner, "onNewBatch", words[1], cluster(words[1], words[2]),
                    Integer.parseInt(words[3])));
            case "append":
                return drawn(() -> {
                    Object now = call(partitioner, "peekCurrentPartitionInfo", cluster("t", words[1]));
                    call(partitioner, "updatePartitionInfo", now, Integer.parseInt(words[2]), cluster("t", words[1]),
                        Boolean.parseBoolean(words[3]));
                    return call(now, "partition");
                });
            case "stats": // partitions, queue sizes, partition ids, racks, how many the arrays have room for
                return drawn(() -> {
                    stats(words);
                    return null;
                });
            default:
                throw new IllegalArgumentException(words[0]);
        }
    }

    /** The hash of a key, and its partition out of each of these counts. */
    static String keyed(byte[] key, String counts) throws Exception {
        List<Integer> answers = new ArrayList<>(List.of(Utils.murmur2(key)));
        for (String count : counts.split(",")) {
            answers.add(partition(key, Integer.parseInt(count)));
        }
        return answers.toString();
    }

    static int partition(byte[] key, int count) throws Exception {
        StringBuilder partitions = new StringBuilder("0!"); // one without a leader: it counts
        for (int at = 1; at < count; at++) {
            partitions.append(',').append(at);
        }
        if (partitioner.getClass().getSimpleName().equals("BuiltInPartitioner")) {
            return (Integer) call(partitioner, "partitionForKey", key, count);
        }
        return partition("topic", key, CLUSTERS.computeIfAbsent(count, c -> cluster("topic", partitions.toString())));
    }

    static final Map<Integer, Cluster> CLUSTERS = new java.util.HashMap<>();

    static int choose(String topic, Cluster cluster) throws Exception {
        if (partitioner.getClass().getSimpleName().equals("BuiltInPartitioner")) {
            last = (Integer) call(call(partitioner, "peekCurrentPartitionInfo", cluster), "partition");
        } else {
            last = partition(topic, null, cluster);
        }
        return last;
    }

    static int partition(String topic, byte[] key, Cluster cluster) throws Exception {
        if (partitioner.getClass().getSimpleName().equals("Partitioner")) { // 0.8.2
            ProducerRecord<byte[], byte[]> record = new ProducerRecord<>(topic, key, new byte[0]);
            return (Integer) call(partitioner, "partition", record, cluster);
        }
        return (Integer) call(partitioner, "partition", topic, key, key, null, null, cluster);
    }

    static Object make(String[] words) throws Exception {
        Constructor<?> constructor = Class.forName(PRODUCER + words[1]).getConstructors()[0];
        Object[] arguments = {null, "t", 0, false, null};
        if (constructor.getParameterCount() > 0) {
            Class<?> context = constructor.getParameterTypes()[0];
            arguments[0] = context.getConstructor().newInstance();
            arguments[2] = Integer.parseInt(words[2]);
            arguments[3] = words.length > 3;
            arguments[4] = words.length > 3 ? words[3] : null;
        }
        return constructor.newInstance(java.util.Arrays.copyOf(arguments, constructor.getParameterCount()));
    }

    static void stats(String[] words) throws Exception {
        int[] sizes = numbers(words[2], words[4]), ids = numbers(words[3], words[4]);
        int length = words[2].equals("-") ? 0 : words[2].split(",").length;
        Method update = method(partitioner, "updatePartitionLoadStats", 3);
        if (update != null) {
            update.invoke(partitioner, sizes, ids, length);
            return;
        }
        String[] racks = sizes == null ? null : new String[sizes.length];
        Cluster cluster = cluster("t", words[1]);
        for (int at = 0; at < length; at++) {
            for (PartitionInfo info : cluster.partitionsForTopic("t")) {
                if (info.partition() == ids[at]) {
                    racks[at] = (String) call(info.leader(), "rack");
                }
            }
        }
        method(partitioner, "updatePartitionLoadStats", 4).invoke(partitioner, sizes, ids, racks, length);
    }

    static int[] numbers(String text, String room) {
        if (text.equals("-")) {
            return null;
        }
        int[] numbers = new int[Integer.parseInt(room)];
        String[] parts = text.split(",");
        for (int at = 0; at < parts.length; at++) {
            numbers[at] = Integer.parseInt(parts[at]);
        }
        return numbers;
    }

    static Cluster cluster(String topic, String partitions) {
        try {
            List<Node> nodes = new ArrayList<>();
            List<PartitionInfo> infos = new ArrayList<>();
            for (String text : partitions.split(",")) {
                String[] parts = text.split("@");
                int id = Integer.parseInt(parts[0].replace("!", ""));
                Node leader = parts.length == 1 ? new Node(id, "host", 9092)
                    : Node.class.getConstructor(int.class, String.class, int.class, String.class)
                        .newInstance(id, parts[2], 9092, parts[1]);
                nodes.add(leader);
                infos.add(new PartitionInfo(topic, id, text.contains("!") ? null : leader, new Node[0], new Node[0]));
            }
            for (Constructor<?> constructor : Cluster.class.getConstructors()) {
                Class<?>[] types = constructor.getParameterTypes();
                if (types.length == 5 && types[0] == String.class) {
                    return (Cluster) constructor.newInstance("cluster", nodes, infos, Set.of(), Set.of());
                }
                if (types.length == 2 && types[0] == Collection.class) {
                    return (Cluster) constructor.newInstance(nodes, infos);
                }
                if (types.length == 3 && types[0] == Collection.class && types[2] == Set.class) {
                    return (Cluster) constructor.newInstance(nodes, infos, Set.of());
                }
            }
            throw new IllegalStateException("an unknown Cluster");
        } catch (ReflectiveOperationException error) {
            throw new IllegalStateException(error);
        }
    }

    interface Action {
        Object run() throws Exception;
    }

    /** What the action returns, and the numbers it drew from ThreadLocalRandom, without their signs. */
    static String drawn(Action action) throws Exception {
        ThreadLocalRandom random = ThreadLocalRandom.current();
        Field theUnsafe = Unsafe.class.getDeclaredField("theUnsafe");
        theUnsafe.setAccessible(true);
        Unsafe unsafe = (Unsafe) theUnsafe.get(null);
        long offset = unsafe.objectFieldOffset(Thread.class.getDeclaredField("threadLocalRandomSeed"));
        Thread thread = Thread.currentThread();
        long before = unsafe.getLong(thread, offset);
        Object result = action.run();
        long after = unsafe.getLong(thread, offset);
        unsafe.putLong(thread, offset, before);
        List<Integer> draws = new ArrayList<>();
        while (unsafe.getLong(thread, offset) != after) {
            draws.add(random.nextInt() & 0x7fffffff);
            if (draws.size() > 10000) {
                throw new IllegalStateException("the draws cannot be found out");
            }
        }
        return "[" + result + ", " + draws + "]";
    }

    static Object call(Object target, String name, Object... arguments) throws Exception {
        return method(target, name, arguments.length).invoke(target, arguments);
    }

    static Method method(Object target, String name, int parameters) {
        List<Method> methods = new ArrayList<>(List.of(target.getClass().getDeclaredMethods()));
        methods.addAll(List.of(target.getClass().getMethods())); // an interface's default
        for (Method method : methods) {
            if (method.getName().equals(name) && method.getParameterCount() == parameters) {
                method.setAccessible(true);
                return method;
            }
        }
        return null;
    }

    static Field field(Object target, String name) throws Exception {
        Field field = target.getClass().getDeclaredField(name);
        field.setAccessible(true);
        return field;
    }
}
