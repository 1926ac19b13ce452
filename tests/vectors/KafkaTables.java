import java.util.stream.Collectors;
import org.apache.kafka.common.acl.AclOperation;
import org.apache.kafka.common.acl.AclPermissionType;
import org.apache.kafka.common.errors.InvalidMetadataException;
import org.apache.kafka.common.errors.RetriableException;
import org.apache.kafka.common.protocol.ApiKeys;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.common.resource.PatternType;
import org.apache.kafka.common.resource.ResourceType;
import org.apache.kafka.security.authorizer.AclEntry;

/** Kafka's error codes, the header versions of its APIs, and the numbers of ACLs, as lines of words. Run by make_messages.py. */
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
        for (ResourceType type : ResourceType.values()) {
            System.out.println("acl ResourceType " + type.code() + " " + type.name());
        }
        for (PatternType type : PatternType.values()) {
            System.out.println("acl PatternType " + type.code() + " " + type.name());
        }
        for (AclOperation operation : AclOperation.values()) {
            System.out.println("acl AclOperation " + operation.code() + " " + operation.name());
        }
        for (AclPermissionType type : AclPermissionType.values()) {
            System.out.println("acl AclPermissionType " + type.code() + " " + type.name());
        }
        for (ResourceType type : ResourceType.values()) {
            if (type != ResourceType.UNKNOWN && type != ResourceType.ANY) {
                System.out.println("operations " + type.name() + " " + AclEntry.supportedOperations(type).stream()
                    .sorted().map(AclOperation::name).collect(Collectors.joining(" ")));
            }
        }
    }
}
