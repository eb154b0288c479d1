// What RemotingCommand makes of commands and of frames, and AclClientRPCHook of requests: JSON in, JSON out.

import com.alibaba.fastjson.JSON;
import com.alibaba.fastjson.serializer.SerializerFeature;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Base64;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.rocketmq.acl.common.AclClientRPCHook;
import org.apache.rocketmq.acl.common.SessionCredentials;
import org.apache.rocketmq.remoting.protocol.LanguageCode;
import org.apache.rocketmq.remoting.protocol.RemotingCommand;
import org.apache.rocketmq.remoting.protocol.SerializeType;

public class RocketmqRemoting {
    public static void main(String[] arguments) throws Exception {
        Map<?, ?> question = (Map<?, ?>) JSON.parse(new String(System.in.readAllBytes(), StandardCharsets.UTF_8));
        Map<String, Object> answers = new LinkedHashMap<>();
        List<Object> encoded = new ArrayList<>();
        for (Object each : (List<?>) question.get("commands")) {
            Map<String, Object> frames = new LinkedHashMap<>();
            for (SerializeType type : SerializeType.values()) {
                RemotingCommand command = command((Map<?, ?>) each);
                command.setSerializeTypeCurrentRPC(type);
                ByteBuffer buffer = command.encode();
                byte[] frame = new byte[buffer.remaining()];
                buffer.get(frame);
                frames.put(type.name(), Base64.getEncoder().encodeToString(frame));
            }
            encoded.add(frames);
        }
        answers.put("encoded", encoded);
        List<Object> decoded = new ArrayList<>();
        for (Object each : (List<?>) question.get("frames")) {
            ByteBuffer buffer = ByteBuffer.wrap(Base64.getDecoder().decode((String) each));
            buffer.getInt(); // the length, which Netty has cut off
            decoded.add(shown(RemotingCommand.decode(buffer)));
        }
        answers.put("decoded", decoded);
        List<Object> signed = new ArrayList<>();
        for (Object each : (List<?>) question.get("commands")) {
            Map<String, Object> fields = new LinkedHashMap<>();
            for (Object who : (List<?>) question.get("credentials")) {
                List<?> names = (List<?>) who;
                RemotingCommand command = command((Map<?, ?>) each);
                SessionCredentials credentials = names.get(2) == null
                    ? new SessionCredentials((String) names.get(0), (String) names.get(1))
                    : new SessionCredentials((String) names.get(0), (String) names.get(1), (String) names.get(2));
                new AclClientRPCHook(credentials).doBeforeRequest("", command);
                fields.put((String) names.get(0), command.getExtFields().get("Signature"));
            }
            signed.add(fields);
        }
        answers.put("signatures", signed);
        System.out.write(JSON.toJSONString(answers, SerializerFeature.WriteMapNullValue).getBytes(StandardCharsets.UTF_8));
        System.out.flush();
        System.exit(0);
    }

    static RemotingCommand command(Map<?, ?> told) {
        RemotingCommand command = RemotingCommand.createRequestCommand((Integer) told.get("code"), null);
        HashMap<String, String> fields = new HashMap<>();
        for (Map.Entry<?, ?> field : ((Map<?, ?>) told.get("fields")).entrySet()) {
            fields.put((String) field.getKey(), (String) field.getValue());
        }
        command.setExtFields(fields);
        command.setOpaque((Integer) told.get("opaque"));
        command.setFlag((Integer) told.get("flag"));
        command.setRemark((String) told.get("remark"));
        command.setLanguage(LanguageCode.valueOf((String) told.get("language")));
        command.setVersion((Integer) told.get("version"));
        command.setBody(Base64.getDecoder().decode((String) told.get("body")));
        return command;
    }

    static Map<String, Object> shown(RemotingCommand command) {
        Map<String, Object> shown = new LinkedHashMap<>();
        shown.put("code", command.getCode());
        shown.put("fields", command.getExtFields() == null ? new HashMap<>() : command.getExtFields());
        shown.put("body", command.getBody() == null ? "" : Base64.getEncoder().encodeToString(command.getBody()));
        shown.put("opaque", command.getOpaque());
        shown.put("flag", command.getFlag());
        shown.put("remark", command.getRemark());
        shown.put("language", command.getLanguage().name());
        shown.put("version", command.getVersion());
        return shown;
    }
}
