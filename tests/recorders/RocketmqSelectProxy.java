import apache.rocketmq.v2.Message;
import apache.rocketmq.v2.SendMessageRequest;
import apache.rocketmq.v2.SystemProperties;
import java.io.PrintStream;
import java.lang.reflect.Constructor;
import java.nio.charset.StandardCharsets;
import java.util.*;
import org.apache.rocketmq.proxy.common.ProxyContext;
import org.apache.rocketmq.proxy.grpc.v2.producer.SendMessageActivity;
import org.apache.rocketmq.proxy.service.route.AddressableMessageQueue;
import org.apache.rocketmq.proxy.service.route.MessageQueueView;
import org.apache.rocketmq.remoting.protocol.RemotingSerializable;
import org.apache.rocketmq.remoting.protocol.route.TopicRouteData;

/** Asks rocketmq-proxy for the queues it stores message groups in, and for its own list of queues. */
@SuppressWarnings("unchecked")
public class RocketmqSelectProxy {
    public static void main(String[] args) throws Exception {
        String text = new String(System.in.readAllBytes(), StandardCharsets.UTF_8);
        Map<String, Object> asked = RemotingSerializable.fromJson(text, Map.class);
        List<Object> positions = new ArrayList<>();
        for (Object route : (List<Object>) asked.get("routes_of_counts")) {
            MessageQueueView view = view((String) route);
            List<Integer> of = new ArrayList<>();
            for (Object key : (List<Object>) asked.get("keys")) of.add(stored(view, (String) key));
            positions.add(of);
        }
        List<Object> lists = new ArrayList<>();
        for (Object route : (List<Object>) asked.get("routes")) {
            try {
                List<String> names = new ArrayList<>();
                for (AddressableMessageQueue queue : view((String) route).getWriteSelector().getQueues()) {
                    names.add(queue.getBrokerName() + ":" + queue.getQueueId());
                }
                lists.add(names);
            } catch (RuntimeException error) {
                lists.add(null);
            }
        }
        Map<String, Object> answers = new LinkedHashMap<>();
        answers.put("queues", positions);
        answers.put("lists", lists);
        new PrintStream(System.out, true, "UTF-8").println(RemotingSerializable.toJson(answers, false));
        System.exit(0);
    }

    static MessageQueueView view(String route) {
        return new MessageQueueView("topic", RemotingSerializable.fromJson(route, TopicRouteData.class), null);
    }

    static int stored(MessageQueueView view, String group) throws Exception {
        Message message = Message.newBuilder()
            .setSystemProperties(SystemProperties.newBuilder().setMessageGroup(group)).build();
        Class<?> type = Class.forName(SendMessageActivity.class.getName() + "$SendMessageQueueSelector");
        Constructor<?> make = type.getDeclaredConstructor(SendMessageRequest.class);
        make.setAccessible(true);
        Object selector = make.newInstance(SendMessageRequest.newBuilder().addMessages(message).build());
        java.lang.reflect.Method select = type.getMethod("select", ProxyContext.class, MessageQueueView.class);
        select.setAccessible(true);
        Object queue = select.invoke(selector, null, view);
        return view.getWriteSelector().getQueues().indexOf(queue);
    }
}
