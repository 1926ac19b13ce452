// Kafka's own tools, one after another in one process. A line of JSON comes in: the class of a tool, the words of its
// command line, its standard input. What it printed and its exit status go out.

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.InputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.reflect.InvocationTargetException;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import org.apache.kafka.common.utils.Exit;

public final class KafkaTools {
    // Where the tool would have ended: what it prints after that, since some catch every Throwable, does not count.
    private static final class Exited extends Error {
        private static final long serialVersionUID = 1L;
    }

    // Tools and the Scala library keep the streams that they find first.
    private static final class Input extends InputStream {
        private volatile ByteArrayInputStream now = new ByteArrayInputStream(new byte[0]);

        @Override
        public int read() {
            return now.read();
        }

        @Override
        public int read(byte[] into, int from, int length) {
            return now.read(into, from, length);
        }
    }

    private static final long HOOKS_MS = 30_000;
    private static final ByteArrayOutputStream OUT = new ByteArrayOutputStream();
    private static final ByteArrayOutputStream ERR = new ByteArrayOutputStream();
    private static final List<Thread> HOOKS = new ArrayList<>();
    private static Map<String, Object> ended;

    public static void main(String[] args) throws Exception {
        ObjectMapper json = new ObjectMapper();
        PrintStream answers = System.out;
        BufferedReader questions = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        Exit.setExitProcedure((status, message) -> {
            end(status);
            throw new Exited();
        });
        Exit.setHaltProcedure((status, message) -> {
            end(status);
            throw new Exited();
        });
        Exit.setShutdownHookAdder((name, hook) -> HOOKS.add(new Thread(hook, name)));
        Input input = new Input();
        System.setIn(input);
        System.setOut(new PrintStream(OUT, true, StandardCharsets.UTF_8));
        System.setErr(new PrintStream(ERR, true, StandardCharsets.UTF_8));
        for (String line = questions.readLine(); line != null; line = questions.readLine()) {
            JsonNode question = json.readTree(line);
            OUT.reset();
            ERR.reset();
            ended = null;
            input.now = new ByteArrayInputStream(question.get("stdin").asText().getBytes(StandardCharsets.UTF_8));
            run(question.get("tool").asText(), json.treeToValue(question.get("words"), String[].class));
            answers.println(json.writeValueAsString(ended));
            answers.flush();
        }
        Runtime.getRuntime().halt(0);
    }

    private static void run(String tool, String[] words) throws ReflectiveOperationException {
        try {
            Class.forName(tool).getMethod("main", String[].class).invoke(null, (Object) words);
            end(0);
        } catch (InvocationTargetException thrown) {
            if (ended == null) {
                System.err.print("Exception in thread \"main\" ");
                thrown.getCause().printStackTrace();
                end(1);
            }
        }
    }

    private static void end(int status) {
        if (ended != null) {
            return;
        }
        runHooks();
        System.out.flush();
        System.err.flush();
        ended = Map.of(
                "stdout", OUT.toString(StandardCharsets.UTF_8),
                "stderr", ERR.toString(StandardCharsets.UTF_8),
                "status", status);
    }

    private static void runHooks() {
        HOOKS.forEach(Thread::start);
        for (Thread hook : HOOKS) {
            try {
                hook.join(HOOKS_MS);
            } catch (InterruptedException stopped) {
                Thread.currentThread().interrupt();
            }
        }
        HOOKS.clear();
    }
}
