import java.io.PrintStream;
import java.lang.reflect.Field;
import java.lang.reflect.Method;
import java.nio.charset.StandardCharsets;
import java.util.*;
import org.apache.rocketmq.client.ClientConfig;
import org.apache.rocketmq.client.impl.factory.MQClientInstance;
import org.apache.rocketmq.client.impl.producer.TopicPublishInfo;
import org.apache.rocketmq.client.latency.MQFaultStrategy;
import org.apache.rocketmq.client.producer.MessageQueueSelector;
import org.apache.rocketmq.client.producer.selector.*;
import org.apache.rocketmq.common.message.MessageQueue;
import org.apache.rocketmq.remoting.protocol.RemotingSerializable;

/** Asks rocketmq-client, 4.1 to 5.x, for selectors, queue lists and turns. Not asked is not answered. */
@SuppressWarnings("unchecked")
public class RocketmqSelect {
    static final String SELECTORS = "org.apache.rocketmq.client.producer.selector.";

    public static void main(String[] args) throws Exception {
        String text = new String(System.in.readAllBytes(), StandardCharsets.UTF_8);
        Map<String, Object> asked = RemotingSerializable.fromJson(text, Map.class);
        Map<String, Object> answers = new LinkedHashMap<>();
        if (asked.containsKey("keys")) {
            List<Object> keys = (List<Object>) asked.get("keys");
            answers.put("hashes", hashes(keys));
            answers.put("queues", byHash(keys, (List<Integer>) asked.get("counts")));
            List<Object> typed = new ArrayList<>();
            for (Object each : (List<Object>) asked.get("typed")) {
                typed.add(typed((List<String>) each));
            }
            answers.put("typed_hashes", hashes(typed));
            answers.put("typed_queues", byHash(typed, (List<Integer>) asked.get("counts")));
            answers.put("machine_room_is_null", new SelectMessageQueueByMachineRoom().select(queues(4), null, "a") == null);
        }
        if (asked.containsKey("routes")) {
            List<Object> publish = new ArrayList<>();
            List<Object> subscribe = new ArrayList<>();
            for (Object route : (List<Object>) asked.get("routes")) {
                publish.add(listed("topicRouteData2TopicPublishInfo", (String) route));
                subscribe.add(listed("topicRouteData2TopicSubscribeInfo", (String) route));
            }
            answers.put("publish", publish);
            answers.put("subscribe", subscribe);
        }
        answers.put("random", random((List<Object>) asked.get("seeds"), (List<Integer>) asked.get("counts")));
        List<Object> turns = new ArrayList<>();
        for (Object each : (List<Object>) asked.get("turns")) {
            turns.add(turns((Map<String, Object>) each));
        }
        answers.put("turns", turns);
        PrintStream out = new PrintStream(System.out, true, "UTF-8");
        out.println(RemotingSerializable.toJson(answers, false));
        System.exit(0);
    }

    static Object typed(List<String> each) {
        String value = each.get(1);
        switch (each.get(0)) {
            case "bool": return Boolean.valueOf(value);
            case "byte": return Byte.valueOf(value);
            case "short": return Short.valueOf(value);
            case "signedint": return Integer.valueOf(value);
            case "long": return Long.valueOf(value);
            case "float": return Float.intBitsToFloat(Integer.parseInt(value));
            default: return Double.longBitsToDouble(Long.parseLong(value));
        }
    }

    static List<Integer> hashes(List<Object> keys) {
        List<Integer> found = new ArrayList<>();
        for (Object key : keys) found.add(key.hashCode());
        return found;
    }

    static List<MessageQueue> queues(int count) {
        List<MessageQueue> queues = new ArrayList<>();
        for (int at = 0; at < count; at++) queues.add(new MessageQueue("topic", "broker", at));
        return queues;
    }

    /** For each count the position of each key's queue, null where the selector throws. */
    static List<Object> byHash(List<Object> keys, List<Integer> counts) {
        MessageQueueSelector selector = new SelectMessageQueueByHash();
        List<Object> found = new ArrayList<>();
        for (int count : counts) {
            List<MessageQueue> queues = queues(count);
            List<Integer> positions = new ArrayList<>();
            for (Object key : keys) {
                try {
                    positions.add(selector.select(queues, null, key).getQueueId());
                } catch (IndexOutOfBoundsException error) {
                    positions.add(null);
                }
            }
            found.add(positions);
        }
        return found;
    }

    static Field field(Object of, String name) throws Exception {
        Field field = of.getClass().getDeclaredField(name);
        field.setAccessible(true);
        return field;
    }

    /** For each seed a run of twenty positions out of each count, of one selector; the time it was made is the seed. */
    static List<Object> random(List<Object> seeds, List<Integer> counts) throws Exception {
        List<Object> found = new ArrayList<>();
        for (Object seed : seeds) {
            Class<?> type;
            try {
                type = Class.forName(SELECTORS + "SelectMessageQueueByRandom");
            } catch (ClassNotFoundException error) {
                type = Class.forName(SELECTORS + "SelectMessageQueueByRandoom");
            }
            MessageQueueSelector selector = (MessageQueueSelector) type.getDeclaredConstructor().newInstance();
            field(selector, "random").set(selector, new Random(Long.parseLong((String) seed)));
            List<Integer> run = new ArrayList<>();
            for (int count : counts) {
                for (int i = 0; i < 20; i++) run.add(selector.select(queues(count), null, null).getQueueId());
            }
            found.add(run);
        }
        return found;
    }

    static Class<?> routeType() throws Exception {
        try {
            return Class.forName("org.apache.rocketmq.remoting.protocol.route.TopicRouteData");
        } catch (ClassNotFoundException error) {
            return Class.forName("org.apache.rocketmq.common.protocol.route.TopicRouteData");
        }
    }

    /** The queues as broker:queueId, null where the client throws; those of a subscription as RebalanceImpl sorts them. */
    static Object listed(String function, String json) throws Exception {
        Object route = RemotingSerializable.class.getMethod("fromJson", String.class, Class.class)
            .invoke(null, json, routeType());
        Object made;
        try {
            made = MQClientInstance.class.getMethod(function, String.class, routeType()).invoke(null, "topic", route);
        } catch (java.lang.reflect.InvocationTargetException error) {
            return null;
        }
        List<MessageQueue> queues;
        if (made instanceof TopicPublishInfo) {
            queues = ((TopicPublishInfo) made).getMessageQueueList();
        } else {
            queues = new ArrayList<>((Set<MessageQueue>) made);
            Collections.sort(queues);
        }
        List<String> names = new ArrayList<>();
        for (MessageQueue queue : queues) names.add(queue.getBrokerName() + ":" + queue.getQueueId());
        return names;
    }

    /** Positions for one message after another, each with the broker not to use again; then the thread's index. */
    static Object turns(Map<String, Object> asked) throws Exception {
        List<Integer> positions = positions(asked, null);
        List<Integer> again = positions(asked, strategy());
        if (!positions.equals(again)) throw new IllegalStateException(asked + ": " + positions + " or " + again);
        return positions;
    }

    static List<Integer> positions(Map<String, Object> asked, MQFaultStrategy strategy) throws Exception {
        TopicPublishInfo info = new TopicPublishInfo();
        List<MessageQueue> queues = info.getMessageQueueList();
        for (Object broker : (List<Object>) asked.get("brokers")) {
            List<Object> pair = (List<Object>) broker;
            for (int at = 0; at < ((Number) pair.get(1)).intValue(); at++) {
                queues.add(new MessageQueue("topic", (String) pair.get(0), at));
            }
        }
        final int drawn = ((Number) asked.get("drawn")).intValue();
        Object index = info.getSendWhichQueue();
        field(index, "random").set(index, new Random() {
            @Override public int nextInt() {
                return drawn;
            }
        });
        List<Integer> found = new ArrayList<>();
        for (Object last : (List<Object>) asked.get("last")) {
            MessageQueue queue = strategy == null
                ? info.selectOneMessageQueue((String) last) : select(strategy, info, (String) last);
            found.add(queues.indexOf(queue));
        }
        found.add((Integer) ((ThreadLocal<Object>) field(index, "threadLocalIndex").get(index)).get());
        return found;
    }

    static MQFaultStrategy strategy() throws Exception {
        for (java.lang.reflect.Constructor<?> made : MQFaultStrategy.class.getConstructors()) {
            if (made.getParameterCount() == 0) return (MQFaultStrategy) made.newInstance();
            if (made.getParameterCount() == 3) return (MQFaultStrategy) made.newInstance(new ClientConfig(), null, null);
        }
        throw new IllegalStateException("no constructor of MQFaultStrategy");
    }

    /** MQFaultStrategy with sendLatencyFaultEnable=false, as DefaultMQProducerImpl asks it. */
    static MessageQueue select(MQFaultStrategy strategy, TopicPublishInfo info, String last) throws Exception {
        for (Method method : MQFaultStrategy.class.getMethods()) {
            if (!method.getName().equals("selectOneMessageQueue")) continue;
            return (MessageQueue) (method.getParameterCount() == 2
                ? method.invoke(strategy, info, last) : method.invoke(strategy, info, last, false));
        }
        throw new IllegalStateException("no MQFaultStrategy.selectOneMessageQueue");
    }
}
