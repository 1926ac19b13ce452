// Apicurio's serialisers and deserialisers. A line of JSON comes in: {"do": "write" or "read", "format", "topic",
// "config"} with a value and its schema, or a payload in base64. A line goes out: {"payload"}, {"value"} or {"error"}.
// Values are in Avro's own JSON encoding, Protobuf's JSON mapping, or plain JSON.

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.google.protobuf.DescriptorProtos.FileDescriptorProto;
import com.google.protobuf.DescriptorProtos.FileDescriptorSet;
import com.google.protobuf.Descriptors.Descriptor;
import com.google.protobuf.Descriptors.FileDescriptor;
import com.google.protobuf.DynamicMessage;
import com.google.protobuf.TypeRegistry;
import com.google.protobuf.util.JsonFormat;
import io.apicurio.registry.serde.avro.AvroKafkaDeserializer;
import io.apicurio.registry.serde.avro.AvroKafkaSerializer;
import io.apicurio.registry.serde.jsonschema.JsonSchemaKafkaDeserializer;
import io.apicurio.registry.serde.jsonschema.JsonSchemaKafkaSerializer;
import io.apicurio.registry.serde.protobuf.ProtobufKafkaDeserializer;
import io.apicurio.registry.serde.protobuf.ProtobufKafkaSerializer;
import java.io.BufferedReader;
import java.io.ByteArrayOutputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Base64;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.avro.Schema;
import org.apache.avro.generic.GenericContainer;
import org.apache.avro.generic.GenericDatumReader;
import org.apache.avro.generic.GenericDatumWriter;
import org.apache.avro.io.DecoderFactory;
import org.apache.avro.io.EncoderFactory;
import org.apache.avro.io.JsonEncoder;
import org.apache.kafka.common.serialization.Deserializer;
import org.apache.kafka.common.serialization.Serializer;

public final class ApicurioSerdes {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final Map<String, Serializer<Object>> SERIALIZERS = new HashMap<>();
    private static final Map<String, Deserializer<Object>> DESERIALIZERS = new HashMap<>();

    public static void main(String[] args) throws Exception {
        PrintStream answers = new PrintStream(System.out, true, StandardCharsets.UTF_8);
        System.setOut(System.err); // libraries print
        BufferedReader questions = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = questions.readLine(); line != null; line = questions.readLine()) {
            Map<String, String> answer = new HashMap<>();
            try {
                JsonNode question = JSON.readTree(line);
                if (question.get("do").asText().equals("write")) {
                    answer.put("payload", Base64.getEncoder().encodeToString(write(question)));
                } else {
                    answer.put("value", read(question));
                }
            } catch (Exception | Error failed) {
                StringBuilder text = new StringBuilder();
                for (Throwable cause = failed; cause != null; cause = cause.getCause()) {
                    text.append(cause).append("; ");
                }
                answer.put("error", text.toString());
            }
            answers.println(JSON.writeValueAsString(answer));
        }
    }

    private static byte[] write(JsonNode question) throws Exception {
        String format = question.get("format").asText();
        String value = question.get("value").asText();
        Object data;
        if (format.equals("avro")) {
            Schema schema = new Schema.Parser().parse(question.get("schema").asText());
            data = new GenericDatumReader<Object>(schema).read(null, DecoderFactory.get().jsonDecoder(schema, value));
        } else if (format.equals("protobuf")) {
            Map<String, FileDescriptor> files = files(question.get("schema").asText());
            Descriptor type = message(files, question.get("message").asText());
            DynamicMessage.Builder message = DynamicMessage.newBuilder(type);
            JsonFormat.parser().usingTypeRegistry(types(files)).merge(value, message);
            data = message.build();
        } else {
            data = JSON.readTree(value);
        }
        return serializer(format, question.get("config")).serialize(question.get("topic").asText(), data);
    }

    private static String read(JsonNode question) throws Exception {
        String format = question.get("format").asText();
        byte[] payload = Base64.getDecoder().decode(question.get("payload").asText());
        Deserializer<Object> deserializer = deserializer(format, question.get("config"));
        Object data = deserializer.deserialize(question.get("topic").asText(), payload);
        if (data instanceof DynamicMessage message) {
            JsonFormat.Printer printer = JsonFormat.printer().preservingProtoFieldNames();
            TypeRegistry known = TypeRegistry.newBuilder().add(message.getDescriptorForType()).build();
            return printer.usingTypeRegistry(known).print(message);
        }
        if (data instanceof JsonNode) {
            return data.toString();
        }
        Schema schema = ((GenericContainer) data).getSchema();
        ByteArrayOutputStream text = new ByteArrayOutputStream();
        JsonEncoder encoder = EncoderFactory.get().jsonEncoder(schema, text);
        new GenericDatumWriter<Object>(schema).write(data, encoder);
        encoder.flush();
        return text.toString(StandardCharsets.UTF_8);
    }

    @SuppressWarnings("unchecked")
    private static Serializer<Object> serializer(String format, JsonNode config) {
        return SERIALIZERS.computeIfAbsent(format + config, key -> {
            Serializer<?> made = format.equals("avro") ? new AvroKafkaSerializer<Object>()
                : format.equals("protobuf") ? new ProtobufKafkaSerializer<>() : new JsonSchemaKafkaSerializer<Object>();
            made.configure(settings(config), false);
            return (Serializer<Object>) made;
        });
    }

    @SuppressWarnings("unchecked")
    private static Deserializer<Object> deserializer(String format, JsonNode config) {
        return DESERIALIZERS.computeIfAbsent(format + config, key -> {
            Deserializer<?> made = format.equals("avro") ? new AvroKafkaDeserializer<Object>()
                : format.equals("protobuf") ? new ProtobufKafkaDeserializer<>() : new JsonSchemaKafkaDeserializer<Object>();
            made.configure(settings(config), false);
            return (Deserializer<Object>) made;
        });
    }

    private static Map<String, Object> settings(JsonNode config) {
        Map<String, Object> settings = new HashMap<>();
        config.fields().forEachRemaining(entry -> settings.put(entry.getKey(), entry.getValue().asText()));
        return settings;
    }

    private static Map<String, FileDescriptor> files(String set) throws Exception {
        Map<String, FileDescriptor> files = new HashMap<>();
        byte[] bytes = Base64.getDecoder().decode(set);
        for (FileDescriptorProto file : FileDescriptorSet.parseFrom(bytes).getFileList()) { // imported files come first
            List<FileDescriptor> imported = new ArrayList<>();
            file.getDependencyList().forEach(name -> imported.add(files.get(name)));
            files.put(file.getName(), FileDescriptor.buildFrom(file, imported.toArray(FileDescriptor[]::new)));
        }
        return files;
    }

    private static Descriptor message(Map<String, FileDescriptor> files, String name) {
        for (FileDescriptor file : files.values()) {
            String prefix = file.getPackage().isEmpty() ? "" : file.getPackage() + ".";
            if (name.startsWith(prefix)) {
                Descriptor found = null;
                for (String part : name.substring(prefix.length()).split("\\.")) {
                    found = found == null ? file.findMessageTypeByName(part) : found.findNestedTypeByName(part);
                    if (found == null) {
                        break;
                    }
                }
                if (found != null) {
                    return found;
                }
            }
        }
        throw new IllegalArgumentException("no message " + name);
    }

    private static TypeRegistry types(Map<String, FileDescriptor> files) {
        TypeRegistry.Builder types = TypeRegistry.newBuilder();
        files.values().forEach(file -> types.add(file.getMessageTypes()));
        return types.build();
    }
}
