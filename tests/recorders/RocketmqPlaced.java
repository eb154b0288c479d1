// Sends messages with properties of RocketMQ's own, and shows in which queues a broker has them: JSON in, JSON out.

import com.alibaba.fastjson.JSON;
import com.alibaba.fastjson.serializer.SerializerFeature;
import java.io.PrintStream;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import org.apache.rocketmq.client.consumer.DefaultMQPullConsumer;
import org.apache.rocketmq.client.consumer.PullResult;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.common.TopicConfig;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageAccessor;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;
import org.apache.rocketmq.remoting.protocol.admin.TopicOffset;
import org.apache.rocketmq.tools.admin.DefaultMQAdminExt;

@SuppressWarnings({"unchecked", "deprecation"})
public class RocketmqPlaced {
    public static void main(String[] arguments) throws Exception {
        Thread.currentThread().setUncaughtExceptionHandler((thread, thrown) -> {
            thrown.printStackTrace();
            System.exit(1); // the client's threads would keep the program running
        });
        PrintStream out = System.out;
        System.setOut(System.err); // of the clients' loggers
        Map<String, Object> question = JSON.parseObject(new String(System.in.readAllBytes(), "UTF-8"), Map.class);
        String namesrv = (String) question.get("namesrv"), address = (String) question.get("address");
        DefaultMQAdminExt admin = new DefaultMQAdminExt();
        admin.setNamesrvAddr(namesrv);
        admin.start();
        Map<String, Map<String, Object>> topics = (Map<String, Map<String, Object>>) question.get("topics");
        for (Map.Entry<String, Map<String, Object>> topic : topics.entrySet()) {
            TopicConfig config = new TopicConfig(topic.getKey());
            config.setReadQueueNums((Integer) topic.getValue().get("queues"));
            config.setWriteQueueNums((Integer) topic.getValue().get("queues"));
            config.getAttributes().put("+message.type", (String) topic.getValue().get("type"));
            admin.createAndUpdateTopicConfig(address, config);
        }
        Map<String, Object> answers = new LinkedHashMap<>();
        DefaultMQProducer producer = new DefaultMQProducer("recorder");
        producer.setNamesrvAddr(namesrv);
        producer.start();
        List<Object> sent = new ArrayList<>();
        for (Map<String, Object> send : (List<Map<String, Object>>) question.get("sends")) {
            String topic = (String) send.get("topic");
            MessageQueue queue = new MessageQueue(topic, "broker", (Integer) send.get("queue"));
            List<Message> messages = new ArrayList<>();
            for (Map<String, String> properties : (List<Map<String, String>>) send.get("messages")) {
                Message message = new Message(topic, "body".getBytes());
                properties.forEach((name, value) -> MessageAccessor.putProperty(message, name, value));
                messages.add(message);
            }
            SendResult result = messages.size() == 1
                ? producer.send(messages.get(0), queue, 20_000) : producer.send(messages, queue, 20_000);
            sent.add(List.of(result.getMessageQueue().getQueueId(), result.getQueueOffset()));
        }
        answers.put("sent", sent);
        Thread.sleep(3000);
        answers.put("read", read(namesrv, topics));
        Map<String, Object> lite = new LinkedHashMap<>();
        for (List<String> names : (List<List<String>>) question.get("lite")) {
            TopicOffset offset = admin.getLiteTopicInfo(address, names.get(0), names.get(1)).getTopicOffset();
            lite.put(names.get(0) + "/" + names.get(1), List.of(offset.getMinOffset(), offset.getMaxOffset()));
        }
        answers.put("lite", lite);
        out.println(JSON.toJSONString(answers, SerializerFeature.DisableCircularReferenceDetect));
        out.flush();
        System.exit(0); // the clients have threads of their own
    }

    /** Return what a consumer without gRPC reads of each topic. */
    static Map<String, Object> read(String namesrv, Map<String, Map<String, Object>> topics) throws Exception {
        DefaultMQPullConsumer consumer = new DefaultMQPullConsumer("reader");
        consumer.setNamesrvAddr(namesrv);
        consumer.start();
        Map<String, Object> read = new TreeMap<>();
        for (String topic : topics.keySet()) {
            List<Object> messages = new ArrayList<>();
            for (int queue = 0; queue < (Integer) topics.get(topic).get("queues"); queue++) {
                MessageQueue place = new MessageQueue(topic, "broker", queue);
                if (consumer.maxOffset(place) == 0) continue;
                PullResult found = consumer.pull(place, "*", 0, 64);
                for (MessageExt message : found.getMsgFoundList()) {
                    Map<String, String> properties = new TreeMap<>(message.getProperties());
                    properties.keySet().removeAll(List.of("CLUSTER", "UNIQ_KEY", "WAIT", "TRACE_ON", "MSG_REGION"));
                    properties.remove("MIN_OFFSET");
                    properties.remove("MAX_OFFSET");
                    messages.add(List.of(queue, message.getQueueOffset(), properties));
                }
            }
            read.put(topic, messages);
        }
        return read;
    }
}
