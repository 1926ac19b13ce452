import java.lang.reflect.Method;
import java.util.List;

import org.apache.kafka.common.config.ConfigDef;

/** Prints every property of Kafka's clients: client, name, type, default and bounds, separated by tabs. */
public class ClientProperties {
    private static final String CLIENTS = "org.apache.kafka.clients.";

    public static void main(String[] arguments) throws Exception {
        for (String name : List.of("admin.AdminClientConfig", "consumer.ConsumerConfig", "producer.ProducerConfig")) {
            Method method = Class.forName(CLIENTS + name).getMethod("configDef");
            for (ConfigDef.ConfigKey key : ((ConfigDef) method.invoke(null)).configKeys().values()) {
                String value = key.hasDefault() ? String.valueOf(ConfigDef.convertToString(key.defaultValue, key.type)) : "";
                System.out.println(String.join("\t", name.split("\\.")[0], key.name, key.type.name(), value));
            }
        }
    }
}
