import org.apache.kafka.common.errors.InvalidMetadataException;
import org.apache.kafka.common.errors.RetriableException;
import org.apache.kafka.common.protocol.ApiKeys;
import org.apache.kafka.common.protocol.Errors;

/** Kafka's error codes, and the header versions of its APIs, as lines of words. Run by make_messages.py. */
public class KafkaTables {
    public static void main(String[] arguments) {
        for (Errors error : Errors.values()) {
            boolean retriable = error.exception() instanceof RetriableException;
            boolean refresh = error.exception() instanceof InvalidMetadataException;
            System.out.println("error " + error.code() + " " + error.name() + " " + retriable + " " + refresh);
        }
        for (ApiKeys api : ApiKeys.values()) {
            short last = api.messageType.highestSupportedVersion(false);
            for (short version = api.messageType.lowestSupportedVersion(); version <= last; version++) {
                System.out.println("header " + api.id + " " + api.name + " " + version + " "
                    + api.requestHeaderVersion(version) + " " + api.responseHeaderVersion(version));
            }
        }
    }
}
