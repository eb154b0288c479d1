// What Java's client reads and writes of POP: handles, answers, acknowledgements; and what a broker assigns. JSON in, JSON out.

import com.alibaba.fastjson.JSON;
import com.alibaba.fastjson.serializer.SerializerFeature;
import java.io.ByteArrayOutputStream;
import java.io.PrintStream;
import java.lang.reflect.Field;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.net.InetSocketAddress;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Base64;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import org.apache.rocketmq.broker.processor.QueryAssignmentProcessor;
import org.apache.rocketmq.client.ClientConfig;
import org.apache.rocketmq.client.consumer.AckCallback;
import org.apache.rocketmq.client.consumer.PopResult;
import org.apache.rocketmq.client.consumer.rebalance.AllocateMessageQueueAveragely;
import org.apache.rocketmq.client.consumer.rebalance.AllocateMessageQueueAveragelyByCircle;
import org.apache.rocketmq.client.impl.MQClientAPIImpl;
import org.apache.rocketmq.common.KeyBuilder;
import org.apache.rocketmq.common.message.MessageDecoder;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;
import org.apache.rocketmq.remoting.CommandCustomHeader;
import org.apache.rocketmq.remoting.netty.NettyClientConfig;
import org.apache.rocketmq.remoting.protocol.RemotingCommand;
import org.apache.rocketmq.remoting.protocol.body.BatchAckMessageRequestBody;
import org.apache.rocketmq.remoting.protocol.header.AckMessageRequestHeader;
import org.apache.rocketmq.remoting.protocol.header.ExtraInfoUtil;
import org.apache.rocketmq.remoting.protocol.header.PopMessageRequestHeader;
import org.apache.rocketmq.remoting.protocol.header.PopMessageResponseHeader;

public class RocketmqPop {
    /** Keeps the body of a request instead of sending it. */
    static class Client extends MQClientAPIImpl {
        String body;

        Client() {
            super(new NettyClientConfig(), null, null, new ClientConfig());
        }

        @Override
        protected void ackMessageAsync(String address, long timeout, AckCallback callback,
            AckMessageRequestHeader header, BatchAckMessageRequestBody request) {
            body = new String(request.encode(), java.nio.charset.StandardCharsets.UTF_8);
        }
    }

    public static void main(String[] arguments) throws Exception {
        PrintStream out = System.out;
        System.setOut(System.err); // where the client's logger writes
        Map<?, ?> question = JSON.parseObject(new String(System.in.readAllBytes(), "UTF-8"), Map.class);
        Client client = new Client();
        Map<String, Object> answers = new TreeMap<>();
        List<Object> handles = new ArrayList<>();
        for (Object each : (Collection<?>) question.get("handles")) {
            handles.add(handle((List<?>) each));
        }
        answers.put("handles", handles);
        List<Object> acks = new ArrayList<>();
        for (Object each : (Collection<?>) question.get("acks")) {
            List<String> texts = new ArrayList<>();
            for (Object text : (Collection<?>) each) {
                texts.add((String) text);
            }
            client.batchAckMessageAsync("", 0, null, "orders", "group", texts);
            acks.add(client.body);
        }
        answers.put("acks", acks);
        List<Object> popped = new ArrayList<>();
        for (Object each : (Collection<?>) question.get("answers")) {
            popped.add(popped(client, (Map<?, ?>) each));
        }
        answers.put("answers", popped);
        List<Object> shares = new ArrayList<>();
        for (Object each : (Collection<?>) question.get("shares")) {
            shares.add(shares((Map<?, ?>) each));
        }
        answers.put("shares", shares);
        out.println(JSON.toJSONString(answers, SerializerFeature.DisableCircularReferenceDetect));
        System.exit(0);
    }

    static long number(Object told) {
        return ((Number) told).longValue();
    }

    static Object handle(List<?> told) {
        String topic = (String) told.get(4);
        String text = ExtraInfoUtil.buildExtraInfo(number(told.get(0)), number(told.get(1)), number(told.get(2)),
            (int) number(told.get(3)), topic, (String) told.get(5), (int) number(told.get(6)), number(told.get(7)));
        String[] parts = ExtraInfoUtil.split(text);
        return Arrays.asList(text, ExtraInfoUtil.getRealTopic(parts, "orders", "group"), ExtraInfoUtil.isOrder(parts),
            KeyBuilder.parseNormalTopic(topic, "group"));
    }

    static Object popped(Client client, Map<?, ?> told) throws Exception {
        ByteArrayOutputStream body = new ByteArrayOutputStream();
        for (Object each : (Collection<?>) told.get("messages")) {
            Map<?, ?> row = (Map<?, ?>) each;
            MessageExt message = new MessageExt();
            message.setTopic((String) row.get("topic"));
            message.setQueueId((int) number(row.get("queue")));
            message.setQueueOffset(number(row.get("offset")));
            message.setBody("body".getBytes());
            message.setBornHost(new InetSocketAddress("127.0.0.1", 1));
            message.setStoreHost(new InetSocketAddress("127.0.0.1", 2));
            message.setReconsumeTimes((int) number(row.get("times")));
            Map<String, String> properties = new HashMap<>();
            ((Map<?, ?>) row.get("properties")).forEach((name, value) -> properties.put((String) name, (String) value));
            org.apache.rocketmq.common.message.MessageAccessor.setProperties(message, properties);
            body.write(MessageDecoder.encode(message, false));
        }
        RemotingCommand response = RemotingCommand.createResponseCommand(PopMessageResponseHeader.class);
        response.setCode((int) number(told.get("code")));
        ((Map<?, ?>) told.get("fields")).forEach((name, value) -> response.addExtField((String) name, (String) value));
        response.setBody(body.toByteArray());
        PopMessageRequestHeader header = new PopMessageRequestHeader();
        header.setTopic("orders");
        header.setOrder((Boolean) told.get("ordered"));
        Method parse = MQClientAPIImpl.class.getDeclaredMethod(
            "processPopResponse", String.class, RemotingCommand.class, String.class, CommandCustomHeader.class);
        parse.setAccessible(true);
        Map<String, Object> answer = new TreeMap<>();
        answer.put("body", Base64.getEncoder().encodeToString(body.toByteArray()));
        try {
            PopResult result = (PopResult) parse.invoke(client, "broker-a", response, "orders", header);
            answer.put("status", result.getPopStatus().name());
            answer.put("rest", result.getRestNum());
            List<Object> messages = new ArrayList<>();
            if (result.getMsgFoundList() != null) {
                for (MessageExt message : result.getMsgFoundList()) {
                    messages.add(List.of(message.getTopic(), message.getReconsumeTimes(), message.getProperties()));
                }
            }
            answer.put("messages", messages);
        } catch (InvocationTargetException failed) {
            answer.put("error", failed.getCause().getClass().getSimpleName());
        }
        return answer;
    }

    static Object shares(Map<?, ?> told) throws Exception {
        Field field = sun.misc.Unsafe.class.getDeclaredField("theUnsafe");
        field.setAccessible(true);
        Object processor = ((sun.misc.Unsafe) field.get(null)).allocateInstance(QueryAssignmentProcessor.class);
        List<MessageQueue> queues = new ArrayList<>();
        for (Object each : (Collection<?>) told.get("queues")) {
            List<?> row = (List<?>) each;
            queues.add(new MessageQueue("orders", (String) row.get(0), (int) number(row.get(1))));
        }
        List<String> clients = new ArrayList<>();
        for (Object each : (Collection<?>) told.get("clients")) {
            clients.add((String) each);
        }
        boolean circle = Boolean.TRUE.equals(told.get("circle"));
        List<Object> rows = new ArrayList<>();
        for (String client : clients) {
            List<Object> ours = new ArrayList<>();
            for (MessageQueue queue : ((QueryAssignmentProcessor) processor).allocate4Pop(
                circle ? new AllocateMessageQueueAveragelyByCircle() : new AllocateMessageQueueAveragely(),
                "group", client, queues, clients, (int) number(told.get("share")))) {
                ours.add(List.of(queue.getBrokerName(), queue.getQueueId()));
            }
            rows.add(ours);
        }
        return rows;
    }
}
