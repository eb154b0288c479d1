import java.lang.reflect.InvocationTargetException;
import java.util.ArrayList;
import java.util.List;
import org.apache.kafka.common.utils.Exit;

/** Runs tools of Kafka one after the other: class and arguments of each, and a last one, which is printed when it is done. */
public final class KafkaTools {
    /** What a tool throws that would end the process. */
    private static final class Exited extends RuntimeException {
        private final int status;

        private Exited(int status) {
            this.status = status;
        }
    }

    public static void main(String[] arguments) throws Exception {
        Exit.setExitProcedure((status, message) -> {
            throw new Exited(status);
        });
        String end = arguments[arguments.length - 1];
        List<String> command = new ArrayList<>();
        for (String argument : arguments) {
            if (!argument.equals(end)) {
                command.add(argument);
                continue;
            }
            String[] own = command.subList(1, command.size()).toArray(new String[0]);
            try {
                Class.forName(command.get(0)).getMethod("main", String[].class).invoke(null, (Object) own);
            } catch (InvocationTargetException error) {
                if (!(error.getCause() instanceof Exited exited && exited.status == 0)) {
                    throw error;
                }
            }
            System.out.println(end);
            command.clear();
        }
    }
}
