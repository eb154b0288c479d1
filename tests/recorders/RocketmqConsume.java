// What a consumer's client writes: subscriptions, the bodies of its requests, its file of offsets. JSON in, JSON out.

import com.alibaba.fastjson.JSON;
import com.alibaba.fastjson.serializer.SerializerFeature;
import java.lang.reflect.Constructor;
import java.lang.reflect.InvocationTargetException;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.rocketmq.client.consumer.store.OffsetSerializeWrapper;
import org.apache.rocketmq.common.message.MessageQueue;
import org.apache.rocketmq.common.sysflag.PullSysFlag;

public class RocketmqConsume {
    /** Packages that hold a class in 5.x and in 4.x. */
    static final String[] PACKAGES = {
        "org.apache.rocketmq.remoting.protocol.", "org.apache.rocketmq.common.", "org.apache.rocketmq.common.protocol."
    };

    public static void main(String[] arguments) throws Exception {
        Map<?, ?> question = JSON.parseObject(new String(System.in.readAllBytes(), "UTF-8"), Map.class);
        Map<String, Object> answers = new TreeMap<>();
        List<Object> subscriptions = new ArrayList<>();
        for (Object each : (Collection<?>) question.get("subscriptions")) {
            List<?> told = (List<?>) each;
            subscriptions.add(subscription((String) told.get(0), (String) told.get(1), (String) told.get(2)));
        }
        answers.put("subscriptions", subscriptions);
        answers.put("offsets", offsets((Collection<?>) question.get("offsets")).toJson(true));
        answers.put("lock", lock((Collection<?>) question.get("offsets")));
        List<Integer> flags = new ArrayList<>();
        for (int bits = 0; bits < 8; bits++) {
            flags.add(PullSysFlag.buildSysFlag((bits & 1) != 0, (bits & 2) != 0, (bits & 4) != 0, false));
        }
        answers.put("flags", flags);
        List<Object> read = new ArrayList<>();
        for (Object text : (Collection<?>) question.get("files")) {
            read.add(read((String) text));
        }
        answers.put("read", read);
        System.out.println(JSON.toJSONString(answers, SerializerFeature.DisableCircularReferenceDetect));
    }

    static Class<?> found(String name) throws ClassNotFoundException {
        for (String prefix : PACKAGES) {
            try {
                return Class.forName(prefix + name);
            } catch (ClassNotFoundException missing) {
                continue;
            }
        }
        throw new ClassNotFoundException(name);
    }

    static Object subscription(String topic, String expression, String type) throws Exception {
        try {
            Object data = found("filter.FilterAPI").getMethod("build", String.class, String.class, String.class)
                .invoke(null, topic, expression, type);
            data.getClass().getMethod("setSubVersion", long.class).invoke(data, 1234567890123L);
            return JSON.toJSONString(data);
        } catch (InvocationTargetException failed) {
            return List.of(String.valueOf(failed.getCause().getMessage()));
        }
    }

    static OffsetSerializeWrapper offsets(Collection<?> told) {
        OffsetSerializeWrapper wrapper = new OffsetSerializeWrapper();
        for (Object each : told) {
            List<?> row = (List<?>) each;
            wrapper.getOffsetTable().put(queue(row), new AtomicLong(((Number) row.get(3)).longValue()));
        }
        return wrapper;
    }

    static String lock(Collection<?> told) throws Exception {
        Object body = found("body.LockBatchRequestBody").getConstructor().newInstance();
        body.getClass().getMethod("setConsumerGroup", String.class).invoke(body, "group");
        body.getClass().getMethod("setClientId", String.class).invoke(body, "127.0.0.1@1");
        Set<MessageQueue> queues = new HashSet<>();
        for (Object each : told) {
            queues.add(queue((List<?>) each));
        }
        body.getClass().getMethod("setMqSet", Set.class).invoke(body, queues);
        return new String((byte[]) body.getClass().getMethod("encode").invoke(body), "UTF-8");
    }

    static Object read(String text) {
        List<Object> rows = new ArrayList<>();
        OffsetSerializeWrapper wrapper = OffsetSerializeWrapper.fromJson(text, OffsetSerializeWrapper.class);
        wrapper.getOffsetTable().forEach((queue, offset) ->
            rows.add(List.of(queue.getTopic(), queue.getBrokerName(), queue.getQueueId(), offset.get())));
        return rows;
    }

    static MessageQueue queue(List<?> row) {
        return new MessageQueue((String) row.get(0), (String) row.get(1), ((Number) row.get(2)).intValue());
    }
}
