// How long RocketMQ's SQL92 evaluator takes for some messages: JSON in, JSON out; see selector.py.

import com.alibaba.fastjson.JSON;
import java.lang.management.ManagementFactory;
import java.lang.management.ThreadMXBean;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.rocketmq.filter.FilterFactory;
import org.apache.rocketmq.filter.expression.EvaluationContext;
import org.apache.rocketmq.filter.expression.Expression;

public class SelectorSpeed {
    static final int WARM_UP = 50;

    /** As the broker's MessageEvaluationContext, which it makes for each message. */
    record Context(Map<String, Object> properties) implements EvaluationContext {
        @Override
        public Object get(String name) {
            return properties.get(name);
        }

        @Override
        public Map<String, Object> keyValues() {
            return properties;
        }
    }

    static int matching(Expression expression, List<Map<String, Object>> messages) throws Exception {
        int count = 0;
        for (Map<String, Object> properties : messages) {
            if (Boolean.TRUE.equals(expression.evaluate(new Context(properties)))) {
                count++;
            }
        }
        return count;
    }

    @SuppressWarnings("unchecked")
    public static void main(String[] arguments) throws Exception {
        Map<String, ?> question = (Map<String, ?>) JSON.parse(new String(System.in.readAllBytes(), StandardCharsets.UTF_8));
        List<Map<String, Object>> messages = new ArrayList<>();
        for (Object properties : (List<?>) question.get("properties")) {
            messages.add(new HashMap<>((Map<String, Object>) properties));
        }
        Expression expression = FilterFactory.INSTANCE.get("SQL92").compile((String) question.get("expression"));
        int count = 0;
        for (int n = 0; n < WARM_UP; n++) {
            count = matching(expression, messages);
        }
        ThreadMXBean clock = ManagementFactory.getThreadMXBean();
        List<Long> nanoseconds = new ArrayList<>();
        for (int n = 0; n < ((Number) question.get("rounds")).intValue(); n++) {
            long start = clock.getCurrentThreadCpuTime();
            matching(expression, messages);
            nanoseconds.add(clock.getCurrentThreadCpuTime() - start);
        }
        Map<String, Object> answer = new HashMap<>();
        answer.put("matching", count);
        answer.put("nanoseconds", nanoseconds);
        System.out.println(JSON.toJSONString(answer));
    }
}
