import apache.rocketmq.v2.Broker;
import apache.rocketmq.v2.MessageQueue;
import apache.rocketmq.v2.Permission;
import apache.rocketmq.v2.Resource;
import com.alibaba.fastjson.JSON;
import com.alibaba.fastjson.JSONObject;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.*;
import org.apache.rocketmq.client.java.impl.producer.PublishingLoadBalancer;
import org.apache.rocketmq.client.java.route.TopicRouteData;
import org.apache.rocketmq.shaded.com.google.common.hash.Hashing;

/** Asks rocketmq-client-java, the gRPC client, for the queues it picks by message group. */
public class RocketmqSelectGrpc {
    public static void main(String[] args) throws Exception {
        JSONObject asked = JSON.parseObject(new String(System.in.readAllBytes(), StandardCharsets.UTF_8));
        List<String> keys = asked.getJSONArray("keys").toJavaList(String.class);
        List<String> hashes = new ArrayList<>();
        for (String key : keys) {
            hashes.add(Long.toString(Hashing.sipHash24().hashBytes(key.getBytes(StandardCharsets.UTF_8)).asLong()));
        }
        List<Object> positions = new ArrayList<>();
        for (int count : asked.getJSONArray("counts").toJavaList(Integer.class)) {
            PublishingLoadBalancer balancer = new PublishingLoadBalancer(route(count));
            List<Integer> of = new ArrayList<>();
            for (String key : keys) of.add(balancer.takeMessageQueueByMessageGroup(key).getQueueId());
            positions.add(of);
        }
        Map<String, Object> answers = new LinkedHashMap<>();
        answers.put("hashes", hashes);
        answers.put("queues", positions);
        new PrintStream(System.out, true, "UTF-8").println(JSON.toJSONString(answers));
        System.exit(0);
    }

    static TopicRouteData route(int count) {
        List<MessageQueue> queues = new ArrayList<>();
        apache.rocketmq.v2.Endpoints endpoints = apache.rocketmq.v2.Endpoints.newBuilder()
            .setScheme(apache.rocketmq.v2.AddressScheme.IPv4)
            .addAddresses(apache.rocketmq.v2.Address.newBuilder().setHost("127.0.0.1").setPort(8081)).build();
        for (int at = 0; at < count; at++) {
            queues.add(MessageQueue.newBuilder().setTopic(Resource.newBuilder().setName("topic")).setId(at)
                .setPermission(Permission.READ_WRITE)
                .setBroker(Broker.newBuilder().setName("broker").setId(0).setEndpoints(endpoints)).build());
        }
        return new TopicRouteData(queues);
    }
}
