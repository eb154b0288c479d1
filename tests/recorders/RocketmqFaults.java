// Scripts of sends for MQFaultStrategy: JSON in, JSON out. What is final or private is reached by reflection.

import com.alibaba.fastjson.JSON;
import com.alibaba.fastjson.serializer.SerializerFeature;
import java.lang.reflect.Constructor;
import java.lang.reflect.Field;
import java.lang.reflect.Method;
import java.lang.reflect.Proxy;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Random;
import org.apache.rocketmq.client.ClientConfig;
import org.apache.rocketmq.client.impl.producer.TopicPublishInfo;
import org.apache.rocketmq.client.latency.MQFaultStrategy;
import org.apache.rocketmq.common.message.MessageQueue;

public class RocketmqFaults {
    /** Times are multiples of this many milliseconds, and a step takes less. */
    static final long GRAIN = 100;

    /** The script's time, which the client's clock is made to agree with. */
    static long now;

    static class Chance extends Random {
        final List<Long> drawn = new ArrayList<>();

        Chance(long seed) {
            super(seed);
        }

        @Override
        public int nextInt() {
            int value = super.nextInt();
            drawn.add(value & 0xFFFFFFFFL);
            return value;
        }

        @Override
        public int nextInt(int bound) {
            int value = super.nextInt(bound);
            drawn.add((long) value);
            return value;
        }
    }

    public static void main(String[] arguments) throws Exception {
        String question = new String(System.in.readAllBytes(), StandardCharsets.UTF_8);
        Map<?, ?> asked = (Map<?, ?>) JSON.parse(question);
        Map<String, Object> answers = new LinkedHashMap<>();
        List<Object> durations = new ArrayList<>();
        Method compute = MQFaultStrategy.class.getDeclaredMethod("computeNotAvailableDuration", long.class);
        compute.setAccessible(true);
        for (Object latency : (List<?>) asked.get("latencies")) {
            durations.add(compute.invoke(strategy(new LinkedHashMap<>(), new ArrayList<>()), ((Number) latency).longValue()));
        }
        answers.put("durations", durations);
        List<Object> played = new ArrayList<>();
        List<?> scripts = (List<?>) asked.get("scripts");
        play((Map<?, ?>) scripts.get(0)); // loads the classes, so that no step of a script takes long
        for (Object script : scripts) {
            Object result = null;
            for (int tries = 0; result == null; tries++) {
                if (tries == 20) {
                    throw new IllegalStateException("every try had a step of more than " + GRAIN + " ms");
                }
                result = play((Map<?, ?>) script);
            }
            played.add(result);
        }
        answers.put("scripts", played);
        System.out.write(JSON.toJSONString(answers, SerializerFeature.DisableCircularReferenceDetect).getBytes(StandardCharsets.UTF_8));
        System.out.flush();
        System.exit(0);
    }

    /** What a script gave; null if a step took so long that the clock may have moved. */
    static Object play(Map<?, ?> script) throws Exception {
        Map<String, String> addresses = new LinkedHashMap<>();
        List<Object> probed = new ArrayList<>();
        MQFaultStrategy strategy = strategy(addresses, probed);
        strategy.setSendLatencyFaultEnable((Boolean) script.get("enabled"));
        Object tolerance = get(strategy, "latencyFaultTolerance");
        Map<?, ?> table = (Map<?, ?>) get(tolerance, "faultItemTable");
        TopicPublishInfo info = info(script);
        Chance chance = new Chance(((Number) script.get("seed")).longValue());
        Object turn = info.getSendWhichQueue();
        Object worst = get(tolerance, has(tolerance, "whichItemWorst") ? "whichItemWorst" : "randomItem");
        set(turn, "random", chance);
        set(worst, "random", chance);
        Field shuffling = Collections.class.getDeclaredField("r");
        shuffling.setAccessible(true);
        shuffling.set(null, chance);
        startAt(turn, script.get("turn"));
        startAt(worst, script.get("worst"));
        now = ((Number) script.get("now")).longValue();
        List<Object> results = new ArrayList<>();
        for (Object each : (List<?>) script.get("steps")) {
            List<?> step = (List<?>) each;
            long begun = System.currentTimeMillis();
            shift(table, begun - now);
            switch ((String) step.get(0)) {
                case "pass":
                    shift(table, now - begun);
                    now += ((Number) step.get(1)).longValue();
                    begun = 0;
                    break;
                case "update":
                    update(strategy, (String) step.get(1), ((Number) step.get(2)).longValue(), (Boolean) step.get(3), (Boolean) step.get(4));
                    break;
                case "select":
                    MessageQueue queue = select(strategy, info, (String) step.get(1), (Boolean) step.get(2));
                    results.add(queue.getBrokerName() + ":" + queue.getQueueId());
                    break;
                case "pick":
                    try {
                        results.add(call(tolerance, "pickOneAtLeast"));
                    } catch (java.lang.reflect.InvocationTargetException failed) {
                        results.add("!" + failed.getCause().getClass().getSimpleName());
                    }
                    break;
                case "detect":
                    addresses.clear();
                    ((Map<?, ?>) step.get(1)).forEach((broker, answer) -> addresses.put((String) broker, (String) answer));
                    probed.clear();
                    call(tolerance, "detectByOneRound");
                    results.add(new ArrayList<>(probed));
                    break;
                default:
                    throw new IllegalArgumentException(step.toString());
            }
            if (begun != 0) {
                long took = System.currentTimeMillis() - begun;
                if (took >= GRAIN) {
                    return null;
                }
                shift(table, now - begun);
            }
        }
        Map<String, Object> end = new LinkedHashMap<>();
        end.put("results", results);
        end.put("drawn", chance.drawn);
        end.put("turn", index(turn));
        end.put("worst", index(worst));
        List<Object> queues = new ArrayList<>();
        for (MessageQueue queue : info.getMessageQueueList()) {
            queues.add(queue.getBrokerName() + ":" + queue.getQueueId());
        }
        end.put("queues", queues);
        Map<String, Object> items = new LinkedHashMap<>();
        for (Map.Entry<?, ?> entry : table.entrySet()) {
            Object item = entry.getValue();
            List<Object> row = new ArrayList<>(Arrays.asList(get(item, "currentLatency"), get(item, "startTimestamp")));
            if (has(item, "reachableFlag")) {
                row.add(get(item, "reachableFlag"));
                row.add(get(item, "checkStamp"));
            }
            items.put((String) entry.getKey(), row);
        }
        end.put("faults", items);
        return end;
    }

    /** Moves the table's times between the script's clock and the client's; 0 is no time but what a row begins with. */
    static void shift(Map<?, ?> table, long by) throws Exception {
        for (Object item : table.values()) {
            for (String name : new String[] {"startTimestamp", "checkStamp"}) {
                if (has(item, name) && (Long) get(item, name) != 0) {
                    long moved = (Long) get(item, name) + by;
                    set(item, name, by < 0 ? moved / GRAIN * GRAIN : moved);
                }
            }
        }
    }

    static MQFaultStrategy strategy(Map<String, String> addresses, List<Object> probed) throws Exception {
        for (Constructor<?> constructor : MQFaultStrategy.class.getConstructors()) {
            Class<?>[] takes = constructor.getParameterTypes();
            if (takes.length == 0) {
                return (MQFaultStrategy) constructor.newInstance();
            }
            if (takes.length == 3) {
                ClassLoader loader = RocketmqFaults.class.getClassLoader();
                Object resolver = Proxy.newProxyInstance(loader, new Class<?>[] {takes[1]}, (proxy, method, values) ->
                    addresses.containsKey(values[0]) ? values[0] : null);
                Object detector = Proxy.newProxyInstance(loader, new Class<?>[] {takes[2]}, (proxy, method, values) -> {
                    probed.add(values[0]);
                    return "answers".equals(addresses.get(values[0]));
                });
                return (MQFaultStrategy) constructor.newInstance(new ClientConfig(), resolver, detector);
            }
        }
        throw new IllegalStateException("no constructor known");
    }

    static TopicPublishInfo info(Map<?, ?> script) throws Exception {
        TopicPublishInfo info = new TopicPublishInfo();
        for (Object each : (List<?>) script.get("queues")) {
            List<?> queue = (List<?>) each;
            info.getMessageQueueList().add(new MessageQueue("T", (String) queue.get(0), (Integer) queue.get(1)));
        }
        Object route = of("route.TopicRouteData");
        List<Object> datas = new ArrayList<>();
        for (Object each : (List<?>) script.get("route")) {
            List<?> told = (List<?>) each;
            Object data = of("route.QueueData");
            set(data, "brokerName", told.get(0));
            set(data, "writeQueueNums", told.get(1));
            set(data, "perm", told.get(2));
            datas.add(data);
        }
        set(route, "queueDatas", datas);
        set(info, "topicRouteData", route);
        return info;
    }

    static Object of(String name) throws Exception {
        for (String home : new String[] {"org.apache.rocketmq.remoting.protocol.", "org.apache.rocketmq.common.protocol."}) {
            try {
                return Class.forName(home + name).getConstructor().newInstance();
            } catch (ClassNotFoundException elsewhere) {
                continue;
            }
        }
        throw new ClassNotFoundException(name);
    }

    static void update(MQFaultStrategy strategy, String broker, long latency, boolean isolated, boolean reachable) throws Exception {
        for (Method method : MQFaultStrategy.class.getMethods()) {
            if (method.getName().equals("updateFaultItem")) {
                Object[] all = {broker, latency, isolated, reachable};
                method.invoke(strategy, Arrays.copyOf(all, method.getParameterCount()));
            }
        }
    }

    static MessageQueue select(MQFaultStrategy strategy, TopicPublishInfo info, String last, boolean reset) throws Exception {
        for (Method method : MQFaultStrategy.class.getMethods()) {
            if (method.getName().equals("selectOneMessageQueue")) {
                Object[] all = {info, last, reset};
                return (MessageQueue) method.invoke(strategy, Arrays.copyOf(all, method.getParameterCount()));
            }
        }
        throw new NoSuchMethodException();
    }

    @SuppressWarnings("unchecked")
    static void startAt(Object index, Object at) throws Exception {
        ThreadLocal<Integer> local = (ThreadLocal<Integer>) get(index, "threadLocalIndex");
        if (at == null) {
            local.remove();
        } else {
            local.set(((Number) at).intValue());
        }
    }

    static Object index(Object index) throws Exception {
        return ((ThreadLocal<?>) get(index, "threadLocalIndex")).get();
    }

    static Object call(Object object, String name) throws Exception {
        Method method = object.getClass().getMethod(name);
        method.setAccessible(true);
        return method.invoke(object);
    }

    static boolean has(Object object, String name) {
        return Arrays.stream(object.getClass().getDeclaredFields()).anyMatch(field -> field.getName().equals(name));
    }

    static Object get(Object object, String name) throws Exception {
        Field field = object.getClass().getDeclaredField(name);
        field.setAccessible(true);
        return field.get(object);
    }

    static void set(Object object, String name, Object value) throws Exception {
        Field field = object.getClass().getDeclaredField(name);
        field.setAccessible(true);
        field.set(object, value);
    }
}
