// Expressions and maps of properties for RocketMQ's SQL92 filter: JSON in, JSON out; see rocketmq_filter.py.

import com.alibaba.fastjson.JSON;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import org.apache.rocketmq.filter.FilterFactory;
import org.apache.rocketmq.filter.expression.EvaluationContext;
import org.apache.rocketmq.filter.expression.Expression;
import org.apache.rocketmq.filter.expression.MQFilterException;

public class RocketmqFilter {
    /** As the broker's MessageEvaluationContext: a map of texts. */
    static EvaluationContext context(Map<String, Object> properties) {
        return new EvaluationContext() {
            @Override
            public Object get(String name) {
                return properties.get(name);
            }

            @Override
            public Map<String, Object> keyValues() {
                return properties;
            }
        };
    }

    static char outcome(Expression expression, EvaluationContext context) {
        try {
            Object value = expression.evaluate(context);
            return value == null ? 'n' : value.equals(Boolean.TRUE) ? 't' : value.equals(Boolean.FALSE) ? 'f' : '?';
        } catch (Throwable thrown) {
            return 'x';
        }
    }

    @SuppressWarnings("unchecked")
    public static void main(String[] arguments) throws Exception {
        Map<String, ?> question = (Map<String, ?>) JSON.parse(new String(System.in.readAllBytes(), StandardCharsets.UTF_8));
        List<EvaluationContext> contexts = new ArrayList<>();
        for (Object properties : (List<?>) question.get("properties")) {
            contexts.add(context((Map<String, Object>) properties));
        }
        List<Object> answers = new ArrayList<>();
        for (Object text : (List<?>) question.get("expressions")) {
            try {
                Expression expression = FilterFactory.INSTANCE.get("SQL92").compile((String) text);
                StringBuilder outcomes = new StringBuilder();
                for (EvaluationContext context : contexts) {
                    outcomes.append(outcome(expression, context));
                }
                answers.add(outcomes.toString());
            } catch (MQFilterException refused) {
                answers.add(null);
            }
        }
        System.out.write(JSON.toJSONString(answers, com.alibaba.fastjson.serializer.SerializerFeature.WriteMapNullValue)
            .getBytes(StandardCharsets.UTF_8));
        System.out.flush();
    }
}
