import java.lang.reflect.Method;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.HexFormat;
import java.util.List;
import java.util.Properties;
import java.util.Random;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import kafka.producer.DefaultPartitioner;
import kafka.producer.Partitioner;
import kafka.producer.PartitionAndLeader;
import kafka.producer.ProducerConfig;
import kafka.producer.ProducerPool;
import kafka.producer.async.DefaultEventHandler;
import scala.Option;
import scala.collection.JavaConversions;
import scala.collection.mutable.HashMap;

/** Asks the Scala producer of Kafka 0.8, as Partitioners asks kafka-clients. */
public class ScalaProducer {
    public static void main(String[] arguments) throws Exception {
        Partitioner partitioner = new DefaultPartitioner(null);
        Properties properties = new Properties();
        properties.put("metadata.broker.list", "127.0.0.1:1");
        ProducerConfig config = new ProducerConfig(properties);
        DefaultEventHandler<Object, Object> handler =
            new DefaultEventHandler<>(config, partitioner, null, null, new ProducerPool(config), new HashMap<>());
        Method choose = null;
        Method cache = null;
        for (Method method : DefaultEventHandler.class.getDeclaredMethods()) {
            if (method.getName().endsWith("getPartition")) {
                choose = method;
            } else if (method.getName().endsWith("sendPartitionPerTopicCache")) {
                cache = method;
            }
        }
        choose.setAccessible(true);
        cache.setAccessible(true);
        Random random = new Random(0); // goes along with Scala's, which is java.util.Random
        scala.util.Random$.MODULE$.setSeed(0);

        String question = new String(System.in.readAllBytes(), StandardCharsets.UTF_8);
        Matcher commands = Pattern.compile("\"([^\"]*)\"").matcher(question);
        List<String> answers = new ArrayList<>();
        while (commands.find()) {
            String[] words = commands.group(1).split(" ");
            if (words[0].equals("text")) {
                byte[] units = HexFormat.of().parseHex(words[1]);
                StringBuilder key = new StringBuilder();
                for (int at = 0; at < units.length; at += 2) {
                    key.append((char) ((units[at] & 0xff) << 8 | units[at + 1] & 0xff));
                }
                List<Integer> answer = new ArrayList<>(List.of(key.toString().hashCode()));
                for (String count : words[2].split(",")) {
                    answer.add(partitioner.partition(key.toString(), Integer.parseInt(count)));
                }
                answers.add(answer.toString());
            } else if (words[0].equals("refresh")) {
                ((HashMap<?, ?>) cache.invoke(handler)).clear();
                answers.add("null");
            } else { // choose: partitions as in Partitioners
                @SuppressWarnings("unchecked")
                boolean draws = !((HashMap<String, Object>) cache.invoke(handler)).contains(words[1]);
                List<PartitionAndLeader> partitions = new ArrayList<>();
                for (String text : words[2].split(",")) {
                    Option<Object> leader = text.endsWith("!") ? Option.empty() : Option.apply((Object) 1);
                    partitions.add(new PartitionAndLeader(words[1], Integer.parseInt(text.replace("!", "")), leader));
                }
                partitions.sort(Comparator.comparing(PartitionAndLeader::partitionId)); // as BrokerPartitionInfo does
                Object chosen = choose.invoke(handler, words[1], null, JavaConversions.asScalaBuffer(partitions));
                answers.add("[" + chosen + ", " + (draws ? List.of(random.nextInt()) : List.of()) + "]");
            }
        }
        System.out.println(answers);
    }
}
