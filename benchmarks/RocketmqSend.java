// RocketMQ's Java producer for benchmarks/rocketmq.py: a line "MODE COUNT WINDOW" on standard input is so many messages
// sent; the answer is a line with the seconds it took, and with how many of them failed.

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.Semaphore;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendCallback;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.common.message.Message;

public class RocketmqSend {
    static final int BATCH = 32;

    public static void main(String[] arguments) throws Exception {
        PrintStream out = System.out;
        System.setOut(System.err);
        String topic = arguments[1];
        byte[] body = new byte[Integer.parseInt(arguments[2])];
        java.util.Arrays.fill(body, (byte) 'x');
        DefaultMQProducer producer = new DefaultMQProducer("bench-java");
        producer.setNamesrvAddr(arguments[0]);
        producer.setVipChannelEnabled(false);
        producer.setSendMsgTimeout(30_000);
        producer.setMqClientApiTimeout(30_000);
        producer.start();
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            String[] words = line.split(" ");
            int count = Integer.parseInt(words[1]);
            long began = System.nanoTime();
            int failed = send(producer, words[0], topic, body, count, Integer.parseInt(words[2]));
            out.println((System.nanoTime() - began) / 1e9 + " " + failed);
            out.flush();
        }
        producer.shutdown();
        System.exit(0);
    }

    static int send(DefaultMQProducer producer, String mode, String topic, byte[] body, int count, int window) throws Exception {
        AtomicInteger failed = new AtomicInteger();
        if (mode.equals("sync")) {
            for (int sent = 0; sent < count; sent++) producer.send(new Message(topic, body));
            return 0;
        }
        Semaphore room = new Semaphore(window);
        SendCallback callback = new SendCallback() {
            @Override
            public void onSuccess(SendResult result) {
                room.release();
            }

            @Override
            public void onException(Throwable error) {
                failed.incrementAndGet();
                room.release();
            }
        };
        int step = mode.equals("batch") ? BATCH : 1;
        for (int sent = 0; sent < count; sent += step) {
            room.acquire();
            if (step == 1) {
                producer.send(new Message(topic, body), callback);
            } else {
                List<Message> batch = new ArrayList<>();
                for (int at = 0; at < step; at++) batch.add(new Message(topic, body));
                producer.send(batch, callback);
            }
        }
        room.acquire(window);
        return failed.get();
    }
}
