// Java's transactional producers and read_committed consumers, driven over standard input and output: a line of JSON
// with the name of a producer and what it shall do comes in, a line with the result or the class of the error goes out.

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Future;
import org.apache.kafka.clients.consumer.ConsumerGroupMetadata;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

public final class TransactionalClient {
    private static final Duration WAIT = Duration.ofSeconds(30);
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final Map<String, KafkaProducer<String, String>> PRODUCERS = new HashMap<>();
    private static final Map<String, KafkaConsumer<String, String>> CONSUMERS = new HashMap<>();
    private static final Map<String, List<Future<RecordMetadata>>> SENT = new HashMap<>();

    public static void main(String[] args) throws Exception {
        PrintStream answers = System.out;
        System.setOut(System.err);
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            ObjectNode answer = JSON.createObjectNode();
            try {
                act(JSON.readTree(line), answer);
            } catch (Exception error) {
                Throwable cause = error instanceof ExecutionException ? error.getCause() : error;
                answer.put("error", cause.getClass().getSimpleName()).put("message", String.valueOf(cause.getMessage()));
            }
            answers.println(JSON.writeValueAsString(answer));
            answers.flush();
        }
        Runtime.getRuntime().halt(0);
    }

    private static void act(JsonNode order, ObjectNode answer) throws Exception {
        String name = order.get("name").asText();
        switch (order.get("do").asText()) {
            case "producer" -> {
                PRODUCERS.put(name, new KafkaProducer<>(settings(order), new StringSerializer(), new StringSerializer()));
                SENT.put(name, new ArrayList<>());
            }
            case "init" -> PRODUCERS.get(name).initTransactions();
            case "begin" -> PRODUCERS.get(name).beginTransaction();
            case "send" -> SENT.get(name).add(PRODUCERS.get(name).send(new ProducerRecord<>(order.get("topic").asText(),
                order.get("partition").asInt(), null, order.get("value").asText())));
            case "flush" -> flush(name, answer);
            case "send_offsets" -> PRODUCERS.get(name).sendOffsetsToTransaction(positions(order), group(order));
            case "commit" -> PRODUCERS.get(name).commitTransaction();
            case "abort" -> PRODUCERS.get(name).abortTransaction();
            case "close" -> PRODUCERS.remove(name).close(Duration.ZERO);
            case "consumer" -> {
                CONSUMERS.put(name, new KafkaConsumer<>(settings(order), new StringDeserializer(), new StringDeserializer()));
                CONSUMERS.get(name).subscribe(List.of(order.get("topic").asText()));
            }
            case "poll" -> poll(CONSUMERS.get(name), order.get("count").asInt(), answer);
            case "leave" -> CONSUMERS.remove(name).close();
            default -> throw new IllegalArgumentException(order.toString());
        }
    }

    private static Map<String, Object> settings(JsonNode order) {
        Map<String, Object> settings = new HashMap<>();
        order.get("settings").properties().forEach(entry -> settings.put(entry.getKey(), entry.getValue().asText()));
        return settings;
    }

    private static void flush(String name, ObjectNode answer) throws Exception {
        PRODUCERS.get(name).flush();
        List<Future<RecordMetadata>> sent = SENT.put(name, new ArrayList<>());
        for (Future<RecordMetadata> one : sent) {
            answer.withArray("offsets").add(one.get().offset());
        }
    }

    private static Map<TopicPartition, OffsetAndMetadata> positions(JsonNode order) {
        Map<TopicPartition, OffsetAndMetadata> offsets = new HashMap<>();
        TopicPartition partition = new TopicPartition(order.get("topic").asText(), order.get("partition").asInt());
        offsets.put(partition, new OffsetAndMetadata(order.get("offset").asLong()));
        return offsets;
    }

    // The metadata of a live consumer, or of a group without members.
    private static ConsumerGroupMetadata group(JsonNode order) {
        return order.has("consumer")
            ? CONSUMERS.get(order.get("consumer").asText()).groupMetadata()
            : new ConsumerGroupMetadata(order.get("group").asText());
    }

    private static void poll(KafkaConsumer<String, String> consumer, int count, ObjectNode answer) {
        long end = System.nanoTime() + WAIT.toNanos();
        int found = 0;
        answer.withArray("values");
        while (found < count && System.nanoTime() < end) {
            for (ConsumerRecord<String, String> one : consumer.poll(Duration.ofMillis(100))) {
                answer.withArray("values").add(one.value());
                found++;
            }
        }
    }
}
