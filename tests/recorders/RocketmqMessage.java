// Encodes and decodes messages, ids and names as RocketMQ's client does: JSON in, JSON out.

import com.alibaba.fastjson.JSON;
import com.alibaba.fastjson.serializer.SerializerFeature;
import java.io.PrintStream;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.Base64;
import java.util.Collection;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import org.apache.rocketmq.client.Validators;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageAccessor;
import org.apache.rocketmq.common.message.MessageClientIDSetter;
import org.apache.rocketmq.common.message.MessageConst;
import org.apache.rocketmq.common.message.MessageDecoder;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageId;

public class RocketmqMessage {
    public static void main(String[] arguments) throws Exception {
        PrintStream out = System.out;
        System.setOut(System.err);
        Map<?, ?> question = JSON.parseObject(new String(System.in.readAllBytes(), "UTF-8"), Map.class);
        Map<String, Object> answers = new TreeMap<>();
        List<Object> strings = new ArrayList<>();
        for (Object each : (Collection<?>) question.get("strings")) {
            strings.add(new TreeMap<>(MessageDecoder.string2messageProperties((String) each)));
        }
        answers.put("strings", strings);
        List<Object> batches = new ArrayList<>();
        for (Object each : (Collection<?>) question.get("batches")) {
            List<Message> messages = new ArrayList<>();
            for (Object told : (Collection<?>) each) {
                messages.add(message((Map<?, ?>) told));
            }
            batches.add(Base64.getEncoder().encodeToString(MessageDecoder.encodeMessages(messages)));
        }
        answers.put("batches", batches);
        List<Object> records = new ArrayList<>();
        for (Object each : (Collection<?>) question.get("records")) {
            records.add(record((Map<?, ?>) each));
        }
        answers.put("records", records);
        answers.put("unique ids", uniqueIds());
        answers.put("topics", verdicts((Collection<?>) question.get("topics"), RocketmqMessage::topic));
        answers.put("groups", verdicts((Collection<?>) question.get("groups"), RocketmqMessage::group));
        answers.put("user properties", verdicts((Collection<?>) question.get("user properties"), RocketmqMessage::user));
        answers.put("reserved", new ArrayList<>(new java.util.TreeSet<>(MessageConst.STRING_HASH_SET)));
        out.println(JSON.toJSONString(answers, SerializerFeature.DisableCircularReferenceDetect));
        out.flush();
        System.exit(0);
    }

    static Message message(Map<?, ?> told) {
        Message message = new Message();
        message.setTopic("t");
        message.setBody(Base64.getDecoder().decode((String) told.get("body")));
        message.setFlag(((Number) told.get("flag")).intValue());
        Map<String, String> properties = new LinkedHashMap<>(); // in the order told
        for (Map.Entry<?, ?> each : ((Map<?, ?>) told.get("properties")).entrySet()) {
            properties.put((String) each.getKey(), (String) each.getValue());
        }
        MessageAccessor.setProperties(message, properties);
        return message;
    }

    /** A record as a broker stores it, and what a consumer makes of it. */
    static Object record(Map<?, ?> told) throws Exception {
        MessageExt message = new MessageExt();
        Message plain = message(told);
        message.setTopic((String) told.get("topic"));
        message.setBody(plain.getBody());
        message.setFlag(plain.getFlag());
        MessageAccessor.setProperties(message, plain.getProperties());
        message.setQueueId(((Number) told.get("queue")).intValue());
        message.setQueueOffset(((Number) told.get("offset")).longValue());
        message.setCommitLogOffset(((Number) told.get("place")).longValue());
        message.setSysFlag(((Number) told.get("system flag")).intValue());
        message.setBornTimestamp(((Number) told.get("born")).longValue());
        message.setStoreTimestamp(((Number) told.get("stored")).longValue());
        message.setBornHost(address((String) told.get("born host")));
        message.setStoreHost(address((String) told.get("store host")));
        message.setReconsumeTimes(((Number) told.get("reconsumed")).intValue());
        message.setPreparedTransactionOffset(((Number) told.get("prepared")).longValue());
        byte[] record = MessageDecoder.encode(message, true);
        Map<String, Object> answer = new TreeMap<>();
        answer.put("record", Base64.getEncoder().encodeToString(record));
        MessageExt found = MessageDecoder.clientDecode(ByteBuffer.wrap(record), true);
        Map<String, Object> read = new TreeMap<>();
        read.put("topic", found.getTopic());
        read.put("body", found.getBody() == null ? "" : Base64.getEncoder().encodeToString(found.getBody()));
        read.put("flag", found.getFlag());
        read.put("properties", found.getProperties() == null ? Map.of() : new TreeMap<>(found.getProperties()));
        read.put("queue", found.getQueueId());
        read.put("offset", found.getQueueOffset());
        read.put("place", found.getCommitLogOffset());
        read.put("system flag", found.getSysFlag());
        read.put("born", found.getBornTimestamp());
        read.put("stored", found.getStoreTimestamp());
        read.put("born host", text((InetSocketAddress) found.getBornHost()));
        read.put("store host", text((InetSocketAddress) found.getStoreHost()));
        read.put("reconsumed", found.getReconsumeTimes());
        read.put("prepared", found.getPreparedTransactionOffset());
        read.put("size", found.getStoreSize());
        read.put("id", found.getMsgId());
        String offsetId = MessageDecoder.createMessageId(found.getStoreHost(), found.getCommitLogOffset());
        read.put("offset id", offsetId);
        MessageId id = MessageDecoder.decodeMessageId(offsetId);
        read.put("place by id", id.getOffset());
        read.put("host by id", text((InetSocketAddress) id.getAddress()));
        read.put("tags", found.getTags());
        read.put("keys", found.getKeys());
        read.put("waits", found.isWaitStoreMsgOK());
        read.put("level", found.getDelayTimeLevel());
        answer.put("read", read);
        return answer;
    }

    static InetSocketAddress address(String text) throws Exception {
        int colon = text.lastIndexOf(':');
        return new InetSocketAddress(
            InetAddress.getByName(text.substring(0, colon)), Integer.parseInt(text.substring(colon + 1)));
    }

    static String text(InetSocketAddress address) {
        return address.getAddress().getHostAddress() + ":" + address.getPort();
    }

    /** Ids made now, and what their maker says of them. */
    static Object uniqueIds() {
        List<Object> answers = new ArrayList<>();
        for (int n = 0; n < 3; n++) {
            String id = MessageClientIDSetter.createUniqID();
            Map<String, Object> told = new TreeMap<>();
            told.put("id", id);
            told.put("now", System.currentTimeMillis());
            told.put("offset", java.util.TimeZone.getDefault().getOffset(System.currentTimeMillis()));
            told.put("born", MessageClientIDSetter.getNearlyTimeFromID(id).getTime());
            told.put("host", MessageClientIDSetter.getIPStrFromID(id));
            told.put("process", MessageClientIDSetter.getPidFromID(id));
            answers.add(told);
        }
        return answers;
    }

    interface Check {
        void check(Object each) throws Exception;
    }

    static void topic(Object each) throws Exception {
        Validators.checkTopic((String) each);
    }

    static void group(Object each) throws Exception {
        Validators.checkGroup((String) each);
    }

    static void user(Object each) throws Exception {
        List<?> pair = (List<?>) each;
        new Message().putUserProperty((String) pair.get(0), (String) pair.get(1));
    }

    /** Null for what passes, else what is thrown. */
    static List<String> verdicts(Collection<?> cases, Check check) {
        List<String> verdicts = new ArrayList<>();
        for (Object each : cases) {
            String verdict = null;
            try {
                check.check(each);
            } catch (Exception error) {
                verdict = error.getClass().getSimpleName();
            }
            verdicts.add(verdict);
        }
        return verdicts;
    }
}
