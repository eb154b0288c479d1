// Sends what it is told to a broker, asks it, lets a consumer fail, and decodes commit logs: JSON in, JSON out.

import com.alibaba.fastjson.JSON;
import com.alibaba.fastjson.serializer.SerializerFeature;
import java.io.PrintStream;
import java.lang.reflect.Method;
import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.Paths;
import java.security.MessageDigest;
import java.util.ArrayList;
import java.util.Base64;
import java.util.Collection;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.exception.MQClientException;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.LocalTransactionState;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.client.producer.TransactionListener;
import org.apache.rocketmq.client.producer.TransactionMQProducer;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageDecoder;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;

public class RocketmqLog {
    public static void main(String[] arguments) throws Exception {
        Thread.currentThread().setUncaughtExceptionHandler((thread, thrown) -> {
            thrown.printStackTrace();
            System.exit(1); // the client's threads would keep the program running
        });
        PrintStream out = System.out;
        System.setOut(System.err); // of the clients' loggers
        Map<?, ?> question = JSON.parseObject(new String(System.in.readAllBytes(), "UTF-8"), Map.class);
        List<Object> answers = new ArrayList<>();
        if (question.containsKey("log")) {
            decode(Paths.get((String) question.get("log")), answers);
        } else if (question.containsKey("asks")) {
            answer(question, answers);
        } else {
            send(question, answers);
        }
        out.println(JSON.toJSONString(answers, SerializerFeature.DisableCircularReferenceDetect));
        out.flush();
        System.exit(0); // the clients have threads of their own
    }

    static void send(Map<?, ?> question, List<Object> answers) throws Exception {
        String namesrv = (String) question.get("namesrv");
        Map<String, DefaultMQProducer> producers = new TreeMap<>();
        for (Object each : (Collection<?>) question.get("sends")) {
            Map<?, ?> send = (Map<?, ?>) each;
            String how = (String) send.get("how");
            String packing = (String) send.get("packing");
            String name = how.startsWith("transaction") ? "transaction" : "plain-" + packing;
            if (!producers.containsKey(name)) {
                producers.put(name, producer(name, namesrv, packing));
            }
            if (how.equals("fail")) {
                fail(namesrv, send);
            } else if (how.equals("topic")) {
                batchTopic(namesrv, send);
            } else {
                for (SendResult result : sent(producers.get(name), how, messages(send), send)) {
                    answers.add(told(result));
                }
            }
        }
        Thread.sleep(((Number) question.get("wait")).longValue());
        producers.values().forEach(DefaultMQProducer::shutdown);
    }

    static DefaultMQProducer producer(String name, String namesrv, String packing) throws Exception {
        DefaultMQProducer producer;
        if (name.equals("transaction")) {
            TransactionMQProducer transactions = new TransactionMQProducer(name);
            transactions.setTransactionListener(new Listener());
            producer = transactions;
        } else {
            producer = new DefaultMQProducer(name);
        }
        producer.setNamesrvAddr(namesrv);
        producer.setInstanceName(name);
        producer.setSendMsgTimeout(20_000);
        producer.setMqClientApiTimeout(20_000); // the machine may be busy
        if (packing != null) {
            for (Method method : DefaultMQProducer.class.getMethods()) {
                if (method.getName().equals("setCompressType")) {
                    Class<?> type = method.getParameterTypes()[0];
                    method.invoke(producer, type.getMethod("valueOf", String.class).invoke(null, packing));
                }
            }
        }
        producer.start();
        return producer;
    }

    /** A transaction ends as its message's tag says. */
    static class Listener implements TransactionListener {
        @Override
        public LocalTransactionState executeLocalTransaction(Message message, Object argument) {
            return LocalTransactionState.valueOf(message.getTags());
        }

        @Override
        public LocalTransactionState checkLocalTransaction(MessageExt message) {
            return LocalTransactionState.UNKNOW;
        }
    }

    static List<Message> messages(Map<?, ?> send) throws Exception {
        List<Message> messages = new ArrayList<>();
        for (Object each : (Collection<?>) send.get("messages")) {
            Map<?, ?> told = (Map<?, ?>) each;
            byte[] body = Base64.getDecoder().decode((String) told.get("body"));
            Message message = new Message((String) told.get("topic"), body);
            if (told.get("tags") != null) {
                message.setTags((String) told.get("tags"));
            }
            if (told.get("keys") != null) {
                message.setKeys((String) told.get("keys"));
            }
            for (Map.Entry<?, ?> property : ((Map<?, ?>) told.get("properties")).entrySet()) {
                message.putUserProperty((String) property.getKey(), (String) property.getValue());
            }
            if (told.get("level") != null) {
                message.setDelayTimeLevel(((Number) told.get("level")).intValue());
            }
            if (told.get("delay") != null) { // not in 4.x
                Message.class.getMethod("setDelayTimeMs", long.class)
                    .invoke(message, ((Number) told.get("delay")).longValue());
            }
            messages.add(message);
        }
        return messages;
    }

    static List<SendResult> sent(DefaultMQProducer producer, String how, List<Message> messages, Map<?, ?> send)
        throws Exception {
        if (how.equals("batch")) {
            return List.of(producer.send(messages));
        }
        List<SendResult> results = new ArrayList<>();
        for (Message message : messages) {
            if (how.equals("transaction")) {
                results.add(producer.sendMessageInTransaction(message, null));
            } else if (how.equals("ordered")) {
                results.add(producer.send(message, (queues, each, key) -> queues.get(
                    Math.floorMod(key.hashCode(), queues.size())), message.getKeys()));
            } else {
                results.add(producer.send(message));
            }
        }
        return results;
    }

    static Map<String, Object> told(SendResult result) {
        Map<String, Object> told = new TreeMap<>();
        told.put("id", result.getMsgId());
        told.put("status", result.getSendStatus().name());
        told.put("topic", result.getMessageQueue().getTopic());
        told.put("queue", result.getMessageQueue().getQueueId());
        told.put("offset", result.getQueueOffset());
        return told;
    }

    /** What the broker itself answers of its queues and messages. */
    static void answer(Map<?, ?> question, List<Object> answers) throws Exception {
        DefaultMQProducer producer = producer("asking", (String) question.get("namesrv"), null);
        for (int tries = 0; ; tries++) {
            try { // from now on the broker's name is known
                producer.fetchPublishMessageQueues((String) question.get("known"));
                break;
            } catch (MQClientException slow) {
                if (tries == 20) {
                    throw slow;
                }
            }
        }
        for (Object each : (Collection<?>) question.get("asks")) {
            Map<?, ?> ask = (Map<?, ?>) each;
            String topic = (String) ask.get("topic");
            Map<String, Object> answer = new TreeMap<>();
            for (Map.Entry<?, ?> told : ask.entrySet()) {
                answer.put((String) told.getKey(), told.getValue());
            }
            if (ask.containsKey("queue")) {
                int queue = ((Number) ask.get("queue")).intValue();
                MessageQueue asked = new MessageQueue(topic, (String) question.get("broker"), queue);
                answer.put("min", producer.minOffset(asked));
                answer.put("max", producer.maxOffset(asked));
            } else {
                List<Object> ids = new ArrayList<>();
                try {
                    String key = (String) ask.get("key");
                    for (MessageExt found : producer.queryMessage(topic, key, 64, 0, Long.MAX_VALUE).getMessageList()) {
                        ids.add(told(found, 0).get("id"));
                    }
                } catch (MQClientException nothing) {
                    // there is no message with this key
                }
                answer.put("ids", ids);
            }
            answers.add(answer);
        }
        producer.shutdown();
    }

    /** Consume a topic's messages and fail, as often as is told; what is tried no more goes to the dead letters. */
    static void fail(String namesrv, Map<?, ?> told) throws Exception {
        CountDownLatch failures = new CountDownLatch(((Number) told.get("failures")).intValue());
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer((String) told.get("group"));
        consumer.setNamesrvAddr(namesrv);
        consumer.setMqClientApiTimeout(20_000);
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.setMaxReconsumeTimes(1);
        consumer.subscribe((String) told.get("topic"), "*");
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            failures.countDown();
            return ConsumeConcurrentlyStatus.RECONSUME_LATER;
        });
        consumer.start();
        failures.await(90, TimeUnit.SECONDS);
        Thread.sleep(1000);
        consumer.shutdown();
    }

    /** Create a topic whose batches are kept in one piece; 5.x only, so by reflection. */
    static void batchTopic(String namesrv, Map<?, ?> told) throws Exception {
        Class<?> type = Class.forName("org.apache.rocketmq.tools.admin.DefaultMQAdminExt");
        Object admin = type.getConstructor().newInstance();
        type.getMethod("setNamesrvAddr", String.class).invoke(admin, namesrv);
        type.getMethod("start").invoke(admin);
        Class<?> config = Class.forName("org.apache.rocketmq.common.TopicConfig");
        Object topic = config.getConstructor(String.class).newInstance(told.get("topic"));
        config.getMethod("setReadQueueNums", int.class).invoke(topic, 2);
        config.getMethod("setWriteQueueNums", int.class).invoke(topic, 2);
        config.getMethod("setAttributes", Map.class).invoke(topic, Map.of("+queue.type", "BatchCQ"));
        type.getMethod("createAndUpdateTopicConfig", String.class, config).invoke(admin, told.get("broker"), topic);
        type.getMethod("shutdown").invoke(admin);
    }

    /** All that a folder's commit log holds, as RocketMQ itself decodes it. */
    static void decode(Path folder, List<Object> answers) throws Exception {
        List<Path> files;
        try (Stream<Path> paths = Files.list(folder)) {
            files = paths.sorted().collect(Collectors.toList());
        }
        for (Path file : files) {
            ByteBuffer data = ByteBuffer.wrap(Files.readAllBytes(file));
            while (data.remaining() > 8) {
                int begin = data.position();
                int size = data.getInt(begin);
                int magic = data.getInt(begin + 4);
                if (size <= 0 || magic == 0xCBD43194) {
                    break;
                }
                ByteBuffer record = data.slice();
                record.limit(size);
                for (MessageExt message : decoded(record)) {
                    answers.add(told(message, magic));
                }
                data.position(begin + size);
            }
        }
    }

    static List<MessageExt> decoded(ByteBuffer record) throws Exception {
        MessageExt message = MessageDecoder.decode(record, true, true);
        if ((message.getSysFlag() & 0xC0) != 0xC0) {
            return List.of(message);
        }
        List<MessageExt> messages = new ArrayList<>(); // a batch in one piece, which 4.x does not write
        MessageDecoder.class.getMethod("decodeMessage", MessageExt.class, List.class).invoke(null, message, messages);
        return messages;
    }

    static Map<String, Object> told(MessageExt message, int magic) throws Exception {
        byte[] digest = MessageDigest.getInstance("SHA-256").digest(message.getBody());
        Map<String, Object> told = new TreeMap<>();
        told.put("magic", Integer.toHexString(magic));
        told.put("place", message.getCommitLogOffset());
        told.put("topic", message.getTopic());
        told.put("queue", message.getQueueId());
        told.put("offset", message.getQueueOffset());
        told.put("flag", message.getSysFlag());
        told.put("born", message.getBornTimestamp());
        told.put("born host", String.valueOf(message.getBornHost()));
        told.put("properties", new TreeMap<>(message.getProperties()));
        told.put("body", Base64.getEncoder().encodeToString(digest));
        told.put("size", message.getBody().length);
        told.put("id", MessageDecoder.createMessageId(message.getStoreHost(), message.getCommitLogOffset()));
        told.put("stored", message.getStoreTimestamp());
        told.put("stored size", message.getStoreSize());
        return told;
    }
}
