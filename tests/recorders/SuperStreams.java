import com.rabbitmq.stream.Message;
import com.rabbitmq.stream.RoutingStrategy;
import java.lang.reflect.Constructor;
import java.lang.reflect.Field;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HexFormat;
import java.util.List;
import java.util.function.Function;
import java.util.function.ToIntFunction;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.Collectors;
import java.util.stream.IntStream;

/**
 * Asks the routing strategy that hashes, of a RabbitMQ stream client from 0.10 on. Standard input is a JSON list:
 * numbers of streams, then routing keys as the hexadecimal digits of their UTF-16 code units. Standard output has a list
 * for each key: its hash, and the place of its stream for each number of streams.
 */
public class SuperStreams {
    static final String IMPLEMENTATION = "com.rabbitmq.stream.impl.";
    static String key;

    public static void main(String[] arguments) throws Exception {
        Field murmur3 = Class.forName(IMPLEMENTATION + "HashUtils").getDeclaredField("MURMUR3");
        murmur3.setAccessible(true);
        @SuppressWarnings("unchecked")
        ToIntFunction<String> hash = (ToIntFunction<String>) murmur3.get(null);
        Constructor<?> constructor = Class.forName(IMPLEMENTATION + "HashRoutingStrategy")
            .getDeclaredConstructor(Function.class, ToIntFunction.class);
        constructor.setAccessible(true);
        Function<Message, String> extractor = message -> key;
        RoutingStrategy strategy = (RoutingStrategy) constructor.newInstance(extractor, hash);

        String question = new String(System.in.readAllBytes(), StandardCharsets.UTF_8);
        List<Streams> destinations = new ArrayList<>();
        List<Object> answers = new ArrayList<>();
        Matcher items = Pattern.compile("(\\d+)(?=[,\\]])|\"([^\"]*)\"").matcher(question);
        while (items.find()) {
            if (items.group(1) != null) {
                destinations.add(new Streams(Integer.parseInt(items.group(1))));
                continue;
            }
            key = text(HexFormat.of().parseHex(items.group(2)));
            List<Integer> answer = new ArrayList<>(List.of(hash.applyAsInt(key)));
            for (Streams streams : destinations) {
                answer.add(streams.partitions().indexOf(strategy.route(null, streams).get(0)));
            }
            answers.add(answer);
        }
        System.out.println(answers);
    }

    static String text(byte[] units) {
        StringBuilder text = new StringBuilder(); // code unit by code unit: a decoder replaces lone surrogates
        for (int at = 0; at < units.length; at += 2) {
            text.append((char) ((units[at] & 0xff) << 8 | units[at + 1] & 0xff));
        }
        return text.toString();
    }

    /** A super stream with so many streams. */
    static class Streams implements RoutingStrategy.Metadata {
        private final List<String> names;

        Streams(int count) {
            names = IntStream.range(0, count).mapToObj(number -> "stream-" + number).collect(Collectors.toList());
        }

        @Override
        public List<String> partitions() {
            return names;
        }

        @Override
        public List<String> route(String routingKey) {
            throw new UnsupportedOperationException("only the other strategy asks the broker");
        }
    }
}
