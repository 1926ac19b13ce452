// Apache's own group tool, called many times in one process. A line of JSON with the words of a command line comes in;
// what the tool printed and its exit status go out.

import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.ByteArrayOutputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.Map;
import org.apache.kafka.common.utils.Exit;
import org.apache.kafka.tools.consumer.group.ConsumerGroupCommand;

public final class GroupTool {
    // Where the tool would have ended: what it prints after that, since it catches every Throwable, does not count.
    private static final class Exited extends Error {
        private static final long serialVersionUID = 1L;
    }

    private static final ByteArrayOutputStream OUT = new ByteArrayOutputStream();
    private static final ByteArrayOutputStream ERR = new ByteArrayOutputStream();
    private static Map<String, Object> ended;

    public static void main(String[] args) throws Exception {
        ObjectMapper json = new ObjectMapper();
        PrintStream answers = System.out;
        BufferedReader questions = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        Exit.setExitProcedure((status, message) -> {
            end(status);
            throw new Exited();
        });
        System.setOut(new PrintStream(OUT, true, StandardCharsets.UTF_8));
        System.setErr(new PrintStream(ERR, true, StandardCharsets.UTF_8));
        for (String line = questions.readLine(); line != null; line = questions.readLine()) {
            OUT.reset();
            ERR.reset();
            ended = null;
            run(json.readValue(line, String[].class));
            answers.println(json.writeValueAsString(ended));
            answers.flush();
        }
    }

    private static void run(String[] words) {
        try {
            ConsumerGroupCommand.main(words);
            end(0);
        } catch (Exited exit) {
            return;
        } catch (Throwable uncaught) {
            System.err.print("Exception in thread \"main\" ");
            uncaught.printStackTrace();
            end(1);
        }
    }

    private static void end(int status) {
        System.out.flush();
        System.err.flush();
        if (ended == null) {
            ended = Map.of(
                    "stdout", OUT.toString(StandardCharsets.UTF_8),
                    "stderr", ERR.toString(StandardCharsets.UTF_8),
                    "status", status);
        }
    }
}
