import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.ByteBuffer;
import java.util.HexFormat;
import org.apache.kafka.common.protocol.ApiMessage;
import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.protocol.MessageUtil;
import org.apache.kafka.common.protocol.ObjectSerializationCache;
import org.apache.kafka.metadata.MetadataRecordSerde;
import org.apache.kafka.server.common.ApiMessageAndVersion;

/**
 * Lines "name version json" in, lines "name version bytes json" out: the bytes, in hex, of the values of metadata
 * records, and of the control records of a metadata log. Run by make_metadata_records.py.
 */
public class MetadataRecordVectors {
    public static void main(String[] arguments) throws Exception {
        ObjectMapper mapper = new ObjectMapper();
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, "UTF-8"));
        StringBuilder out = new StringBuilder();
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            String[] words = line.split(" ", 3);
            short version = Short.parseShort(words[1]);
            boolean isMetadata = isClass("org.apache.kafka.common.metadata." + words[0]);
            String name = "org.apache.kafka.common." + (isMetadata ? "metadata." : "message.") + words[0];
            ApiMessage message = (ApiMessage) Class.forName(name + "JsonConverter")
                .getMethod("read", JsonNode.class, short.class).invoke(null, mapper.readTree(words[2]), version);
            ByteBuffer bytes = isMetadata
                ? metadata(new ApiMessageAndVersion(message, version))
                : MessageUtil.toByteBufferAccessor(message, version).buffer();
            byte[] array = new byte[bytes.remaining()];
            bytes.get(array);
            out.append(words[0]).append(' ').append(version).append(' ')
                .append(HexFormat.of().formatHex(array)).append(' ').append(words[2]).append('\n');
        }
        System.out.write(out.toString().getBytes("UTF-8"));
        System.out.flush();
    }

    private static boolean isClass(String name) {
        try {
            Class.forName(name);
            return true;
        } catch (ClassNotFoundException absent) {
            return false;
        }
    }

    private static ByteBuffer metadata(ApiMessageAndVersion record) {
        ObjectSerializationCache cache = new ObjectSerializationCache();
        int size = MetadataRecordSerde.INSTANCE.recordSize(record, cache);
        ByteBuffer bytes = ByteBuffer.allocate(size);
        MetadataRecordSerde.INSTANCE.write(record, cache, new ByteBufferAccessor(bytes));
        bytes.flip();
        return bytes;
    }
}
