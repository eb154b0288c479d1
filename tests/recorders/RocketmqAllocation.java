// How consumers share queues: JSON in, JSON out. Each case is answered by every strategy, or by what it throws.

import com.alibaba.fastjson.JSON;
import com.alibaba.fastjson.serializer.SerializerFeature;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Collections;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.rocketmq.client.consumer.AllocateMessageQueueStrategy;
import org.apache.rocketmq.client.consumer.rebalance.AllocateMachineRoomNearby;
import org.apache.rocketmq.client.consumer.rebalance.AllocateMessageQueueAveragely;
import org.apache.rocketmq.client.consumer.rebalance.AllocateMessageQueueAveragelyByCircle;
import org.apache.rocketmq.client.consumer.rebalance.AllocateMessageQueueByConfig;
import org.apache.rocketmq.client.consumer.rebalance.AllocateMessageQueueByMachineRoom;
import org.apache.rocketmq.client.consumer.rebalance.AllocateMessageQueueConsistentHash;
import org.apache.rocketmq.common.message.MessageQueue;

public class RocketmqAllocation {
    public static void main(String[] arguments) throws Exception {
        List<Object> answers = new ArrayList<>();
        for (Object each : (List<?>) JSON.parse(new String(System.in.readAllBytes(), StandardCharsets.UTF_8))) {
            answers.add(answer((Map<?, ?>) each));
        }
        System.out.write(JSON.toJSONString(answers, SerializerFeature.DisableCircularReferenceDetect).getBytes(StandardCharsets.UTF_8));
        System.out.flush();
    }

    static Object answer(Map<?, ?> asked) {
        List<MessageQueue> queues = new ArrayList<>();
        for (Object each : (List<?>) asked.get("queues")) {
            List<?> queue = (List<?>) each;
            queues.add(new MessageQueue((String) asked.get("topic"), (String) queue.get(0), (Integer) queue.get(1)));
        }
        List<String> clients = new ArrayList<>();
        for (Object client : (List<?>) asked.get("clients")) {
            clients.add((String) client);
        }
        if ((Boolean) asked.get("sorted")) {
            Collections.sort(queues);
            Collections.sort(clients);
        }
        AllocateMessageQueueByMachineRoom inRooms = new AllocateMessageQueueByMachineRoom();
        inRooms.setConsumeridcs(new HashSet<>());
        for (Object room : (List<?>) asked.get("rooms")) {
            inRooms.getConsumeridcs().add((String) room);
        }
        AllocateMessageQueueByConfig configured = new AllocateMessageQueueByConfig();
        configured.setMessageQueueList(queues.subList(0, queues.size() / 2));
        AllocateMachineRoomNearby.MachineRoomResolver resolver = new AllocateMachineRoomNearby.MachineRoomResolver() {
            @Override
            public String brokerDeployIn(MessageQueue queue) {
                return queue.getBrokerName().split("@", 2)[0];
            }

            @Override
            public String consumerDeployIn(String client) {
                return client.split("@", 2)[0];
            }
        };
        List<AllocateMessageQueueStrategy> strategies = new ArrayList<>();
        strategies.add(new AllocateMessageQueueAveragely());
        strategies.add(new AllocateMessageQueueAveragelyByCircle());
        strategies.add(new AllocateMessageQueueConsistentHash((Integer) asked.get("virtual_nodes")));
        strategies.add(inRooms);
        strategies.add(configured);
        strategies.add(new AllocateMachineRoomNearby(new AllocateMessageQueueAveragely(), resolver));
        strategies.add(new AllocateMachineRoomNearby(new AllocateMessageQueueAveragelyByCircle(), resolver));
        Map<String, Object> answer = new LinkedHashMap<>();
        for (AllocateMessageQueueStrategy strategy : strategies) {
            try {
                // Queues by their places in the list, which are shorter than their names.
                List<Integer> places = new ArrayList<>();
                for (MessageQueue queue : strategy.allocate("group", (String) asked.get("current"), queues, clients)) {
                    places.add(queues.indexOf(queue));
                }
                answer.put(strategy.getName(), places);
            } catch (Exception thrown) {
                answer.put(strategy.getName(), thrown.getMessage());
            }
        }
        return answer;
    }
}
