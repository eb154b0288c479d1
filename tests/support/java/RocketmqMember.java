// A Java client beside ours: sends what it is told, or is a member of a group. Its first line of input is JSON that says
// which; then it writes a line of JSON for each thing that happens, until its input ends.

import com.alibaba.fastjson.JSON;
import com.alibaba.fastjson.serializer.SerializerFeature;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.reflect.Method;
import java.util.Base64;
import java.util.Collection;
import java.util.Map;
import java.util.TreeMap;
import org.apache.rocketmq.client.common.ClientErrorCode;
import org.apache.rocketmq.client.consumer.DefaultLitePullConsumer;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.MessageSelector;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.ConsumeOrderlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.consumer.listener.MessageListenerOrderly;
import org.apache.rocketmq.client.exception.MQClientException;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.LocalTransactionState;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.client.producer.TransactionListener;
import org.apache.rocketmq.client.producer.TransactionMQProducer;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;

public class RocketmqMember {
    static PrintStream out;
    static volatile boolean polling = true;

    public static void main(String[] arguments) {
        int status = 0;
        try {
            work();
        } catch (Throwable error) {
            error.printStackTrace();
            status = 1;
        }
        System.exit(status); // the clients have threads of their own
    }

    static void work() throws Exception {
        out = System.out;
        System.setOut(System.err); // of the clients' loggers
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, "UTF-8"));
        Map<?, ?> told = JSON.parseObject(in.readLine(), Map.class);
        if (told.containsKey("messages")) {
            send(told);
        } else if (told.containsKey("transactions")) {
            TransactionMQProducer producer = transact(told);
            while (in.readLine() != null) {
                continue;
            }
            producer.shutdown();
        } else if (Boolean.TRUE.equals(told.get("polls"))) {
            DefaultLitePullConsumer consumer = poller(told);
            Thread polls = new Thread(() -> {
                while (polling) {
                    consumer.poll(100).forEach(RocketmqMember::got);
                }
            });
            polls.start();
            while (in.readLine() != null) {
                continue;
            }
            polling = false;
            polls.join();
            consumer.shutdown();
        } else {
            DefaultMQPushConsumer consumer = member(told);
            while (in.readLine() != null) {
                continue;
            }
            consumer.shutdown();
        }
        say(Map.of("ended", true));
    }

    static synchronized void say(Map<String, ?> what) {
        out.println(JSON.toJSONString(what, SerializerFeature.DisableCircularReferenceDetect));
        out.flush();
    }

    static void send(Map<?, ?> told) throws Exception {
        DefaultMQProducer producer = new DefaultMQProducer((String) told.get("group"));
        say(Map.of("made", true));
        producer.setNamesrvAddr((String) told.get("namesrv"));
        producer.setSendMsgTimeout(20_000);
        producer.setMqClientApiTimeout(20_000); // the machine may be busy
        producer.start();
        for (Object each : (Collection<?>) told.get("messages")) {
            Map<?, ?> row = (Map<?, ?>) each;
            Message message = new Message((String) row.get("topic"), Base64.getDecoder().decode((String) row.get("body")));
            message.setFlag(((Number) row.get("flag")).intValue());
            if (row.get("tags") != null) {
                message.setTags((String) row.get("tags"));
            }
            if (row.get("keys") != null) {
                message.setKeys((String) row.get("keys"));
            }
            ((Map<?, ?>) row.get("properties")).forEach((name, value) ->
                message.putUserProperty((String) name, (String) value));
            SendResult result;
            if (row.get("broker") == null) {
                result = sendRouted(producer, message);
            } else {
                int queue = ((Number) row.get("queue")).intValue();
                result = producer.send(message, new MessageQueue(message.getTopic(), (String) row.get("broker"), queue));
            }
            Map<String, Object> sent = new TreeMap<>();
            sent.put("id", result.getMsgId());
            sent.put("offset id", result.getOffsetMsgId());
            sent.put("broker", result.getMessageQueue().getBrokerName());
            sent.put("queue", result.getMessageQueue().getQueueId());
            sent.put("offset", result.getQueueOffset());
            say(sent);
        }
        producer.shutdown();
    }

    /** Send; a route is asked for again, as a name server has 3 s to take a connection, whatever the limits above. */
    static SendResult sendRouted(DefaultMQProducer producer, Message message) throws Exception {
        for (int tries = 1; ; tries++) {
            try {
                return producer.send(message);
            } catch (MQClientException error) {
                if (error.getResponseCode() != ClientErrorCode.NOT_FOUND_TOPIC_EXCEPTION || tries == 10) {
                    throw error;
                }
                Thread.sleep(1_000);
            }
        }
    }

    /** Send half messages, each with the state of its local transaction, and answer checks with the state for all. */
    static TransactionMQProducer transact(Map<?, ?> told) throws Exception {
        TransactionMQProducer producer = new TransactionMQProducer((String) told.get("group"));
        say(Map.of("made", true));
        producer.setNamesrvAddr((String) told.get("namesrv"));
        producer.setSendMsgTimeout(20_000);
        producer.setMqClientApiTimeout(20_000);
        producer.setTransactionListener(new TransactionListener() {
            @Override
            public LocalTransactionState executeLocalTransaction(Message message, Object state) {
                return LocalTransactionState.valueOf((String) state);
            }

            @Override
            public LocalTransactionState checkLocalTransaction(MessageExt message) {
                got(message);
                return LocalTransactionState.valueOf((String) told.get("check"));
            }
        });
        producer.start();
        for (Object each : (Collection<?>) told.get("transactions")) {
            Map<?, ?> row = (Map<?, ?>) each;
            Message message = new Message((String) row.get("topic"), Base64.getDecoder().decode((String) row.get("body")));
            say(Map.of("id", producer.sendMessageInTransaction(message, row.get("state")).getMsgId()));
        }
        return producer;
    }

    static DefaultLitePullConsumer poller(Map<?, ?> told) throws Exception {
        DefaultLitePullConsumer consumer = new DefaultLitePullConsumer((String) told.get("group"));
        say(Map.of("made", true));
        consumer.setNamesrvAddr((String) told.get("namesrv"));
        consumer.setMqClientApiTimeout(20_000);
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.setAutoCommitIntervalMillis(1_000);
        consumer.subscribe((String) told.get("topic"), (String) told.get("tags"));
        consumer.start();
        return consumer;
    }

    static DefaultMQPushConsumer member(Map<?, ?> told) throws Exception {
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer((String) told.get("group"));
        say(Map.of("made", true));
        consumer.setNamesrvAddr((String) told.get("namesrv"));
        consumer.setMqClientApiTimeout(20_000);
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        if (told.get("popped") != null) { // 4.x has no such methods
            Class<?> type = DefaultMQPushConsumer.class;
            type.getMethod("setClientRebalance", boolean.class).invoke(consumer, false);
            type.getMethod("setPopInvisibleTime", long.class).invoke(consumer, ((Number) told.get("popped")).longValue());
        }
        if (told.get("instance") != null) {
            consumer.setInstanceName((String) told.get("instance"));
        }
        if (told.get("ip") != null) {
            consumer.setClientIP((String) told.get("ip"));
        }
        if (Boolean.TRUE.equals(told.get("broadcasting"))) {
            for (Method method : DefaultMQPushConsumer.class.getMethods()) {
                if (method.getName().equals("setMessageModel")) { // its package is not the same in 4.x
                    Class<?> type = method.getParameterTypes()[0];
                    method.invoke(consumer, type.getField("BROADCASTING").get(null));
                }
            }
        }
        if (told.get("sql") != null) {
            consumer.subscribe((String) told.get("topic"), MessageSelector.bySql((String) told.get("sql")));
        } else {
            consumer.subscribe((String) told.get("topic"), (String) told.get("tags"));
        }
        if (Boolean.TRUE.equals(told.get("orderly"))) {
            consumer.registerMessageListener((MessageListenerOrderly) (messages, context) -> {
                messages.forEach(RocketmqMember::got);
                return ConsumeOrderlyStatus.SUCCESS;
            });
        } else {
            boolean fails = Boolean.TRUE.equals(told.get("fails"));
            consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
                messages.forEach(RocketmqMember::got);
                return fails ? ConsumeConcurrentlyStatus.RECONSUME_LATER : ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
            });
        }
        consumer.start();
        return consumer;
    }

    static void got(MessageExt message) {
        Map<String, Object> row = new TreeMap<>();
        row.put("topic", message.getTopic());
        row.put("body", Base64.getEncoder().encodeToString(message.getBody()));
        row.put("properties", new TreeMap<>(message.getProperties()));
        row.put("flag", message.getFlag());
        row.put("broker", message.getBrokerName());
        row.put("queue", message.getQueueId());
        row.put("offset", message.getQueueOffset());
        row.put("log offset", message.getCommitLogOffset());
        row.put("system flag", message.getSysFlag());
        row.put("born", message.getBornTimestamp());
        row.put("born host", String.valueOf(message.getBornHost()).replace("/", ""));
        row.put("stored", message.getStoreTimestamp());
        row.put("store host", String.valueOf(message.getStoreHost()).replace("/", ""));
        row.put("reconsumed", message.getReconsumeTimes());
        row.put("id", message.getMsgId());
        say(row);
    }
}
