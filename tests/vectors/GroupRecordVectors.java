import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.ByteBuffer;
import java.util.HexFormat;
import org.apache.kafka.common.protocol.ApiMessage;
import org.apache.kafka.common.protocol.Message;
import org.apache.kafka.common.protocol.MessageUtil;

/**
 * Lines "name version json" in, lines "name version bytes json" out: the bytes, in hex, of the keys and values of
 * __consumer_offsets and __transaction_state (keys with their kind before them, values with their version), and of what
 * consumers write for the leader of their group. Run by make_group_records.py.
 */
public class GroupRecordVectors {
    public static void main(String[] arguments) throws Exception {
        ObjectMapper mapper = new ObjectMapper();
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, "UTF-8"));
        StringBuilder out = new StringBuilder();
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            String[] words = line.split(" ", 3);
            short version = Short.parseShort(words[1]);
            String home = words[0].startsWith("ConsumerProtocol") ? "common.message."
                : words[0].startsWith("TransactionLog") ? "coordinator.transaction.generated."
                : "coordinator.group.generated.";
            Class<?> data = Class.forName("org.apache.kafka." + home + words[0]);
            Message message = (Message) Class.forName(data.getName() + "JsonConverter")
                .getMethod("read", JsonNode.class, short.class).invoke(null, mapper.readTree(words[2]), version);
            ByteBuffer bytes = words[0].endsWith("Key")
                ? MessageUtil.toCoordinatorTypePrefixedByteBuffer((ApiMessage) message)
                : MessageUtil.toVersionPrefixedByteBuffer(version, message);
            byte[] array = new byte[bytes.remaining()];
            bytes.get(array);
            out.append(words[0]).append(' ').append(version).append(' ')
                .append(HexFormat.of().formatHex(array)).append(' ').append(words[2]).append('\n');
        }
        System.out.write(out.toString().getBytes("UTF-8"));
        System.out.flush();
    }
}
