// RocketMQ's own producer and consumer at work: JSON in, JSON out. What is asked for is done in this order:
//   sends     send messages, through a selector where one is named, and tell where each is stored
//   consumes  read topics from their beginning until so many messages are there, and tell all of each
//   answers   answer so many requests of a topic
//   requests  send requests and tell the replies

import com.alibaba.fastjson.JSON;
import com.alibaba.fastjson.serializer.SerializerFeature;
import java.io.PrintStream;
import java.lang.reflect.Field;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Base64;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.MessageQueueSelector;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.client.producer.selector.SelectMessageQueueByHash;
import org.apache.rocketmq.client.producer.selector.SelectMessageQueueByMachineRoom;
import org.apache.rocketmq.client.producer.selector.SelectMessageQueueByRandom;
import org.apache.rocketmq.client.utils.MessageUtil;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageAccessor;
import org.apache.rocketmq.common.message.MessageClientExt;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;

public class RocketmqProbe {
    static final PrintStream OUT = System.out;

    public static void main(String[] arguments) throws Exception {
        Thread.currentThread().setUncaughtExceptionHandler((thread, thrown) -> {
            thrown.printStackTrace();
            System.exit(1); // the client's threads would keep the program running
        });
        System.setOut(System.err); // where others may write
        Map<?, ?> asked = (Map<?, ?>) JSON.parse(new String(System.in.readAllBytes(), StandardCharsets.UTF_8));
        String servers = (String) asked.get("namesrv");
        String group = (String) asked.get("group");
        Map<String, Object> answers = new LinkedHashMap<>();
        DefaultMQProducer producer = new DefaultMQProducer(group);
        producer.setNamesrvAddr(servers);
        producer.setVipChannelEnabled(false);
        producer.setInstanceName(group);
        producer.setSendMsgTimeout(20_000);
        producer.setMqClientApiTimeout(20_000); // the machine may be busy
        producer.start();
        if (asked.get("sends") != null) {
            answers.put("sends", sends(producer, (List<?>) asked.get("sends")));
        }
        if (asked.get("consumes") != null) {
            answers.put("consumes", consumes(servers, group, (Map<?, ?>) asked.get("consumes")));
        }
        if (asked.get("answers") != null) {
            answers.put("answers", answers(servers, group, producer, (Map<?, ?>) asked.get("answers")));
        }
        if (asked.get("requests") != null) {
            answers.put("requests", requests(producer, (List<?>) asked.get("requests")));
        }
        producer.shutdown();
        OUT.write(JSON.toJSONString(answers, SerializerFeature.WriteMapNullValue, SerializerFeature.DisableCircularReferenceDetect)
            .getBytes(StandardCharsets.UTF_8));
        OUT.flush();
        System.exit(0);
    }

    static Object argument(List<?> typed) {
        if (typed == null) return null;
        String value = (String) typed.get(1);
        switch ((String) typed.get(0)) {
            case "string": return value;
            case "signedint": return Integer.valueOf(value);
            case "long": return Long.valueOf(value);
            case "double": return Double.valueOf(value);
            default: return Boolean.valueOf(value);
        }
    }

    static Message message(Map<?, ?> told) {
        Message message = new Message((String) told.get("topic"), (byte[]) Base64.getDecoder().decode((String) told.get("body")));
        if (told.get("tags") != null) message.setTags((String) told.get("tags"));
        if (told.get("keys") != null) message.setKeys((String) told.get("keys"));
        if (told.get("flag") != null) message.setFlag((Integer) told.get("flag"));
        if (told.get("properties") != null) {
            for (Map.Entry<?, ?> property : ((Map<?, ?>) told.get("properties")).entrySet()) {
                message.putUserProperty((String) property.getKey(), (String) property.getValue());
            }
        }
        return message;
    }

    static List<Object> sends(DefaultMQProducer producer, List<?> sends) throws Exception {
        Map<String, MessageQueueSelector> selectors = new LinkedHashMap<>();
        selectors.put("hash", new SelectMessageQueueByHash());
        selectors.put("random", new SelectMessageQueueByRandom());
        selectors.put("machine_room", new SelectMessageQueueByMachineRoom());
        List<Object> results = new ArrayList<>();
        for (Object each : sends) {
            Map<?, ?> told = (Map<?, ?>) each;
            Message message = message(told);
            String name = (String) told.get("selector");
            if (told.get("seed") != null) {
                Field random = SelectMessageQueueByRandom.class.getDeclaredField("random");
                random.setAccessible(true);
                random.set(selectors.get("random"), new Random(((Number) told.get("seed")).longValue()));
            }
            Map<String, Object> result = new LinkedHashMap<>();
            try {
                SendResult sent;
                if (told.get("queue") != null) {
                    List<?> queue = (List<?>) told.get("queue");
                    sent = producer.send(message, new MessageQueue(message.getTopic(), (String) queue.get(0), (Integer) queue.get(1)));
                } else if (name != null) {
                    sent = producer.send(message, selectors.get(name), argument((List<?>) told.get("argument")));
                } else {
                    sent = producer.send(message);
                }
                result.put("queue", List.of(sent.getMessageQueue().getBrokerName(), sent.getMessageQueue().getQueueId()));
                result.put("offset", sent.getQueueOffset());
                result.put("id", sent.getMsgId());
                result.put("offset_id", sent.getOffsetMsgId());
            } catch (Exception error) {
                result.put("error", String.valueOf(error.getMessage()));
            }
            results.add(result);
        }
        return results;
    }

    static Map<String, Object> shown(MessageExt message) {
        Map<String, Object> shown = new LinkedHashMap<>();
        shown.put("topic", message.getTopic());
        shown.put("body", Base64.getEncoder().encodeToString(message.getBody()));
        shown.put("properties", message.getProperties());
        shown.put("flag", message.getFlag());
        shown.put("tags", message.getTags());
        shown.put("keys", message.getKeys());
        shown.put("delay_level", message.getDelayTimeLevel());
        shown.put("wait", message.isWaitStoreMsgOK());
        shown.put("queue", List.of(message.getBrokerName() == null ? "" : message.getBrokerName(), message.getQueueId()));
        shown.put("offset", message.getQueueOffset());
        shown.put("id", message.getMsgId());
        shown.put("offset_id", message instanceof MessageClientExt ? ((MessageClientExt) message).getOffsetMsgId() : null);
        shown.put("born", message.getBornTimestamp());
        shown.put("born_host", message.getBornHostString());
        shown.put("stored", message.getStoreTimestamp());
        shown.put("system_flag", message.getSysFlag());
        shown.put("reconsumed", message.getReconsumeTimes());
        return shown;
    }

    static DefaultMQPushConsumer consumer(String servers, String group) {
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer(group);
        consumer.setNamesrvAddr(servers);
        consumer.setVipChannelEnabled(false);
        consumer.setMqClientApiTimeout(20_000);
        consumer.setInstanceName(group + "-consumer");
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.setConsumeMessageBatchMaxSize(1);
        return consumer;
    }

    static List<Object> consumes(String servers, String group, Map<?, ?> asked) throws Exception {
        int count = (Integer) asked.get("count");
        List<Object> seen = new ArrayList<>();
        CountDownLatch all = new CountDownLatch(count);
        DefaultMQPushConsumer consumer = consumer(servers, group);
        for (Object topic : (List<?>) asked.get("topics")) {
            consumer.subscribe((String) topic, asked.get("expression") == null ? "*" : (String) asked.get("expression"));
        }
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            synchronized (seen) {
                for (MessageExt message : messages) {
                    seen.add(shown(message));
                    all.countDown();
                }
            }
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        consumer.start();
        all.await((Integer) asked.get("seconds"), TimeUnit.SECONDS);
        consumer.shutdown();
        synchronized (seen) {
            return new ArrayList<>(seen);
        }
    }

    static List<Object> answers(String servers, String group, DefaultMQProducer producer, Map<?, ?> asked) throws Exception {
        int count = (Integer) asked.get("count");
        List<Object> seen = new ArrayList<>();
        CountDownLatch all = new CountDownLatch(count);
        DefaultMQPushConsumer consumer = consumer(servers, group);
        consumer.subscribe((String) asked.get("topic"), "*");
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            for (MessageExt message : messages) {
                try {
                    byte[] body = ("answer to " + new String(message.getBody(), StandardCharsets.UTF_8)).getBytes(StandardCharsets.UTF_8);
                    Message reply = MessageUtil.createReplyMessage(message, body);
                    reply.putUserProperty("answered", "by Java");
                    producer.send(reply, 3000);
                    synchronized (seen) {
                        seen.add(shown(message));
                    }
                    all.countDown();
                } catch (Exception error) {
                    System.err.println("no reply: " + error);
                }
            }
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        consumer.start();
        all.await((Integer) asked.get("seconds"), TimeUnit.SECONDS);
        consumer.shutdown();
        return seen;
    }

    static List<Object> requests(DefaultMQProducer producer, List<?> requests) {
        List<Object> replies = new ArrayList<>();
        for (Object each : requests) {
            Map<String, Object> shown = new LinkedHashMap<>();
            try {
                Message reply = producer.request(message((Map<?, ?>) each), 10_000);
                shown.put("body", Base64.getEncoder().encodeToString(reply.getBody()));
                shown.put("properties", reply.getProperties());
            } catch (Exception error) {
                shown.put("error", String.valueOf(error));
            }
            replies.add(shown);
        }
        return replies;
    }
}
