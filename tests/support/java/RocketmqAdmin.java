// RocketMQ's own administration at work on a consumer: JSON in, JSON out. What `mqadmin consumerConnection`,
// `consumerStatus` and `getConsumerStatus` print, and what their classes read in the consumer's answers.

import com.alibaba.fastjson.JSON;
import com.alibaba.fastjson.serializer.SerializerFeature;
import java.io.ByteArrayOutputStream;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import org.apache.commons.cli.DefaultParser;
import org.apache.commons.cli.Options;
import org.apache.rocketmq.common.message.MessageQueue;
import org.apache.rocketmq.remoting.protocol.body.ConsumerRunningInfo;
import org.apache.rocketmq.srvutil.ServerUtil;
import org.apache.rocketmq.tools.admin.DefaultMQAdminExt;
import org.apache.rocketmq.tools.command.SubCommand;
import org.apache.rocketmq.tools.command.SubCommandException;
import org.apache.rocketmq.tools.command.connection.ConsumerConnectionSubCommand;
import org.apache.rocketmq.tools.command.consumer.ConsumerStatusSubCommand;
import org.apache.rocketmq.tools.command.offset.GetConsumerStatusCommand;

public class RocketmqAdmin {
    public static void main(String[] arguments) throws Exception {
        Thread.currentThread().setUncaughtExceptionHandler((thread, thrown) -> {
            thrown.printStackTrace();
            System.exit(1); // the client's threads would keep the program running
        });
        PrintStream out = System.out;
        System.setOut(System.err); // where others may write
        Map<?, ?> asked = (Map<?, ?>) JSON.parse(new String(System.in.readAllBytes(), StandardCharsets.UTF_8));
        String servers = (String) asked.get("namesrv");
        String group = (String) asked.get("group");
        String topic = (String) asked.get("topic");
        String client = (String) asked.get("client");
        System.setProperty("rocketmq.namesrv.addr", servers); // as mqadmin does with -n
        Map<String, Object> answers = new LinkedHashMap<>();
        answers.put("consumerConnection", printed(new ConsumerConnectionSubCommand(), "-g", group));
        answers.put("consumerStatus", printed(new ConsumerStatusSubCommand(), "-g", group, "-i", client));
        answers.put("getConsumerStatus", printed(new GetConsumerStatusCommand(), "-g", group, "-t", topic));
        DefaultMQAdminExt admin = new DefaultMQAdminExt(20_000);
        admin.setVipChannelEnabled(false);
        admin.setMqClientApiTimeout(20_000);
        admin.start();
        ConsumerRunningInfo info = admin.getConsumerRunningInfo(group, client, true);
        answers.put("info", info);
        List<List<Object>> queues = new ArrayList<>();
        for (Map.Entry<MessageQueue, ?> each : info.getMqTable().entrySet()) {
            queues.add(List.of(place(each.getKey()), each.getValue()));
        }
        answers.put("queues", queues);
        TreeMap<String, ConsumerRunningInfo> all = new TreeMap<>(Map.of(client, info));
        answers.put("same", ConsumerRunningInfo.analyzeSubscription(all));
        answers.put("trouble", ConsumerRunningInfo.analyzeProcessQueue(client, info));
        List<List<Object>> status = new ArrayList<>();
        for (Map.Entry<MessageQueue, Long> each : admin.getConsumeStatus(topic, group, client).get(client).entrySet()) {
            status.add(List.of(place(each.getKey()), each.getValue()));
        }
        answers.put("status", status);
        admin.shutdown();
        info.setMqTable(new TreeMap<>()); // told above, with keys that are no texts
        out.write(JSON.toJSONString(answers, SerializerFeature.DisableCircularReferenceDetect)
            .getBytes(StandardCharsets.UTF_8));
        out.flush();
        System.exit(0);
    }

    static List<Object> place(MessageQueue queue) {
        return List.of(queue.getTopic(), queue.getBrokerName(), queue.getQueueId());
    }

    /** What a command prints; its own timeouts are 3 s, which a busy machine takes to load its classes. */
    static String printed(SubCommand command, String... arguments) throws Exception {
        for (int tries = 1; ; tries++) {
            try {
                return printedAtOnce(command, arguments);
            } catch (SubCommandException error) {
                if (tries == 5) throw error;
            }
        }
    }

    static String printedAtOnce(SubCommand command, String... arguments) throws Exception {
        PrintStream before = System.out;
        ByteArrayOutputStream text = new ByteArrayOutputStream();
        System.setOut(new PrintStream(text, true, StandardCharsets.UTF_8));
        try {
            Options options = command.buildCommandlineOptions(ServerUtil.buildCommandlineOptions(new Options()));
            command.execute(new DefaultParser().parse(options, arguments), options, null);
        } finally {
            System.setOut(before);
        }
        return text.toString(StandardCharsets.UTF_8);
    }
}
