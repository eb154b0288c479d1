// Sends for DefaultMQProducerImpl, whose network is a script: JSON in, JSON out.

import com.alibaba.fastjson.JSON;
import com.alibaba.fastjson.serializer.SerializerFeature;
import java.lang.reflect.Field;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.lang.reflect.Proxy;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.rocketmq.client.exception.MQBrokerException;
import org.apache.rocketmq.client.exception.MQClientException;
import org.apache.rocketmq.client.impl.factory.MQClientInstance;
import org.apache.rocketmq.client.impl.producer.DefaultMQProducerImpl;
import org.apache.rocketmq.client.impl.producer.TopicPublishInfo;
import org.apache.rocketmq.client.latency.LatencyFaultTolerance;
import org.apache.rocketmq.client.latency.MQFaultStrategy;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.common.ServiceState;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageQueue;
import org.apache.rocketmq.remoting.RemotingClient;
import org.apache.rocketmq.remoting.exception.RemotingConnectException;
import org.apache.rocketmq.remoting.exception.RemotingException;
import org.apache.rocketmq.remoting.exception.RemotingSendRequestException;
import org.apache.rocketmq.remoting.exception.RemotingTimeoutException;
import org.apache.rocketmq.remoting.exception.RemotingTooMuchRequestException;
import org.apache.rocketmq.remoting.protocol.RemotingCommand;

public class RocketmqSend {
    /** Delays and timeouts are multiples of this many milliseconds, and all else takes less. */
    static final long GRAIN = 50;

    static MQClientInstance client;
    static List<?> outcomes;
    static int next;
    static long begun;
    static long slept;
    static boolean late;
    static List<Object> tries = new ArrayList<>();
    static List<Object> faults = new ArrayList<>();

    /** The addresses of brokers; one is not known when the script says MQClientException. */
    static class Addresses extends ConcurrentHashMap<String, HashMap<Long, String>> {
        int asked;

        @Override
        public HashMap<Long, String> get(Object broker) {
            if (outcome().get(0).equals("MQClientException")) {
                if (++asked % 2 == 0) { // it is looked up twice
                    tries.add(null);
                    take();
                }
                return null;
            }
            HashMap<Long, String> addresses = new HashMap<>();
            addresses.put(0L, "127.0.0.1:" + (broker.equals("a") ? 1 : 2));
            return addresses;
        }
    }

    static List<?> outcome() {
        return (List<?>) outcomes.get(next);
    }

    static List<?> take() {
        List<?> outcome = outcome();
        next++;
        long delay = ((Number) outcome.get(1)).longValue();
        if (delay > 0) {
            try {
                Thread.sleep(delay);
            } catch (InterruptedException stopped) {
                throw new IllegalStateException(stopped);
            }
        }
        slept += delay;
        late |= System.currentTimeMillis() - begun - slept >= GRAIN;
        return outcome;
    }

    public static void main(String[] arguments) throws Exception {
        List<Object> answers = new ArrayList<>();
        List<?> cases = (List<?>) JSON.parse(new String(System.in.readAllBytes(), StandardCharsets.UTF_8));
        play((Map<?, ?>) cases.get(0));
        for (Object each : cases) {
            Object answer = null;
            for (int attempt = 0; answer == null; attempt++) {
                if (attempt == 20) {
                    throw new IllegalStateException("every attempt was late by " + GRAIN + " ms");
                }
                answer = play((Map<?, ?>) each);
            }
            answers.add(answer);
        }
        System.out.write(JSON.toJSONString(answers, SerializerFeature.DisableCircularReferenceDetect).getBytes(StandardCharsets.UTF_8));
        System.out.flush();
        System.exit(0);
    }

    static Object play(Map<?, ?> script) throws Exception {
        outcomes = (List<?>) script.get("outcomes");
        next = 0;
        slept = 0;
        late = false;
        tries.clear();
        faults.clear();
        DefaultMQProducer producer = new DefaultMQProducer("group");
        producer.setNamesrvAddr("127.0.0.1:9");
        producer.setVipChannelEnabled(false);
        for (Map.Entry<?, ?> setting : ((Map<?, ?>) script.get("settings")).entrySet()) {
            for (Method method : DefaultMQProducer.class.getMethods()) {
                if (method.getName().equals(setting.getKey())) {
                    method.invoke(producer, setting.getValue());
                }
            }
        }
        DefaultMQProducerImpl sender = producer.getDefaultMQProducerImpl();
        if (client == null) { // it has threads, so there is one for all
            client = new MQClientInstance(producer, 0, "client");
        }
        set(client, "brokerAddrTable", new Addresses());
        set(client.getMQClientAPIImpl(), "remotingClient", Proxy.newProxyInstance(RocketmqSend.class.getClassLoader(),
            new Class<?>[] {RemotingClient.class}, (proxy, method, values) -> answer(method, values)));
        set(sender, has(sender, "mQClientFactory") ? "mQClientFactory" : "mqClientFactory", client);
        set(sender, "serviceState", ServiceState.RUNNING);
        MQFaultStrategy strategy = (MQFaultStrategy) get(sender, "mqFaultStrategy");
        set(strategy, "latencyFaultTolerance", Proxy.newProxyInstance(RocketmqSend.class.getClassLoader(),
            new Class<?>[] {LatencyFaultTolerance.class}, (proxy, method, values) -> note(method, values)));
        strategy.setSendLatencyFaultEnable(true);
        if ((Boolean) script.get("detector")) {
            MQFaultStrategy.class.getMethod("setStartDetectorEnable", boolean.class).invoke(strategy, true);
        }
        TopicPublishInfo info = new TopicPublishInfo();
        info.setHaveTopicRouterInfo(true);
        for (String broker : new String[] {"a", "b"}) {
            info.getMessageQueueList().add(new MessageQueue("T", broker, 0));
        }
        sender.getTopicPublishInfoTable().put("T", info);
        Map<String, Object> end = new LinkedHashMap<>();
        Message message = new Message("T", new byte[1]);
        begun = System.currentTimeMillis();
        try {
            SendResult result;
            switch ((String) script.get("how")) {
                case "selector":
                    result = sender.send(message, (queues, sent, key) -> queues.get(0), null, producer.getSendMsgTimeout());
                    break;
                case "oneway":
                    sender.sendOneway(message);
                    result = null;
                    break;
                default:
                    result = sender.send(message, producer.getSendMsgTimeout());
            }
            end.put("return", result == null ? null : result.getSendStatus().name());
        } catch (MQClientException thrown) {
            end.put("throw", thrown.getClass().getSimpleName());
            end.put("code", thrown.getResponseCode());
        } catch (MQBrokerException thrown) {
            end.put("throw", thrown.getClass().getSimpleName());
            end.put("code", thrown.getResponseCode());
        } catch (RemotingException | InterruptedException thrown) {
            end.put("throw", thrown.getClass().getSimpleName());
        }
        end.put("tries", new ArrayList<>(tries));
        end.put("faults", new ArrayList<>(faults));
        return late ? null : end;
    }

    /** The network: notes the timeout it is given, rounded up to what it would be in no time. */
    static Object answer(Method method, Object[] values) throws Exception {
        if (!method.getName().equals("invokeSync") && !method.getName().equals("invokeOneway")) {
            return null;
        }
        long timeout = (Long) values[2];
        tries.add((timeout + GRAIN - 1) / GRAIN * GRAIN);
        List<?> outcome = take();
        switch ((String) outcome.get(0)) {
            case "RemotingConnectException": throw new RemotingConnectException("a");
            case "RemotingTimeoutException": throw new RemotingTimeoutException("a");
            case "RemotingSendRequestException": throw new RemotingSendRequestException("a");
            case "RemotingTooMuchRequestException": throw new RemotingTooMuchRequestException("a");
            case "InterruptedException": throw new InterruptedException();
            default:
        }
        RemotingCommand response = RemotingCommand.createResponseCommand(((Number) outcome.get(2)).intValue(), "remark", null);
        response.addExtField("msgId", "0");
        response.addExtField("queueId", "0");
        response.addExtField("queueOffset", "0");
        return response;
    }

    static Object note(Method method, Object[] values) {
        if (method.getName().equals("updateFaultItem")) {
            // What the latency adds is a matter of the durations; all here are short, so that 0 is not isolated.
            faults.add(Arrays.asList((Long) values[2] > 0, values.length < 4 || (Boolean) values[3]));
            return null;
        }
        return method.getReturnType() == boolean.class ? Boolean.TRUE : null;
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
