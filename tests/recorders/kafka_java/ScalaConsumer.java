// Prints the records of topics as the consumer of Kafka 0.8 reads them, in the form of OldConsumer: without times.
// Arguments are the address of a broker and the topics.

import java.io.PrintStream;
import java.nio.ByteBuffer;
import java.util.Base64;
import kafka.api.FetchRequestBuilder;
import kafka.javaapi.FetchResponse;
import kafka.javaapi.consumer.SimpleConsumer;
import kafka.message.MessageAndOffset;

public class ScalaConsumer {
    public static void main(String[] arguments) {
        PrintStream out = new PrintStream(System.out, false);
        String[] address = arguments[0].split(":");
        SimpleConsumer consumer =
            new SimpleConsumer(address[0], Integer.parseInt(address[1]), 10_000, 1 << 20, "recorder");
        for (int n = 1; n < arguments.length; n++) {
            long next = 0;
            while (true) {
                FetchResponse answer =
                    consumer.fetch(new FetchRequestBuilder().addFetch(arguments[n], 0, next, 1 << 20).build());
                if (answer.hasError()) {
                    throw new IllegalStateException(arguments[n] + " " + answer.errorCode(arguments[n], 0));
                }
                boolean any = false;
                for (MessageAndOffset read : answer.messageSet(arguments[n], 0)) {
                    if (read.offset() >= next) { // a wrapper has records from before it, too
                        read.message().ensureValid();
                        out.println(arguments[n] + " " + read.offset() + " -1 NoTimestampType "
                            + text(read.message().key()) + " " + text(read.message().payload()));
                        next = read.offset() + 1;
                        any = true;
                    }
                }
                if (!any) {
                    break;
                }
            }
        }
        consumer.close();
        out.flush();
    }

    static String text(ByteBuffer data) {
        if (data == null) {
            return "-";
        }
        byte[] bytes = new byte[data.remaining()];
        data.duplicate().get(bytes);
        return "=" + Base64.getEncoder().encodeToString(bytes);
    }
}
