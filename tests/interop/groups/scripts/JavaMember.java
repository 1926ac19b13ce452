// A member of Apache's Java client. Arguments and events: see member_loop.py.

import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.regex.Pattern;
import java.util.stream.Collectors;
import org.apache.kafka.clients.consumer.CommitFailedException;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.consumer.RetriableCommitFailedException;
import org.apache.kafka.clients.consumer.SubscriptionPattern;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.RebalanceInProgressException;
import org.apache.kafka.common.errors.TimeoutException;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

public final class JavaMember implements ConsumerRebalanceListener {
    private static final Duration CALL = Duration.ofMillis(100);
    private static volatile boolean leaving = false;

    private final KafkaConsumer<byte[], byte[]> consumer;
    private final boolean commits;
    private final Map<TopicPartition, OffsetAndMetadata> pending = new HashMap<>();

    private JavaMember(KafkaConsumer<byte[], byte[]> consumer, boolean commits) {
        this.consumer = consumer;
        this.commits = commits;
    }

    public static void main(String[] args) throws Exception {
        String how = args[0];
        long workMs = Long.parseLong(args[1]);
        List<String> topics = Arrays.asList(args[2].split(","));
        Properties properties = new Properties();
        properties.put("enable.auto.commit", how.equals("auto") ? "true" : "false");
        for (String one : Arrays.asList(args).subList(3, args.length)) {
            String[] parts = one.split("=", 2);
            properties.put(parts[0], parts[1]);
        }
        Thread stdin = new Thread(JavaMember::waitForStdin);
        stdin.setDaemon(true);
        stdin.start();
        KafkaConsumer<byte[], byte[]> consumer =
                new KafkaConsumer<>(properties, new ByteArrayDeserializer(), new ByteArrayDeserializer());
        JavaMember member = new JavaMember(consumer, how.equals("sync"));
        try {
            member.subscribe(topics, "consumer".equals(properties.get("group.protocol")));
            member.run(workMs);
        } catch (KafkaException fatal) {
            say("failed", why(fatal));
            System.exit(1);
        }
    }

    private static void waitForStdin() {
        try {
            System.in.read();
        } catch (java.io.IOException gone) {
            // as good as an end
        }
        leaving = true;
    }

    private void subscribe(List<String> topics, boolean onTheServer) {
        if (!topics.get(0).startsWith("^")) {
            consumer.subscribe(topics, this);
        } else if (onTheServer) {
            consumer.subscribe(new SubscriptionPattern(topics.get(0)), this);
        } else {
            consumer.subscribe(Pattern.compile(topics.get(0)), this);
        }
    }

    private void run(long workMs) throws InterruptedException {
        say("joined", "");
        while (!leaving) {
            ConsumerRecords<byte[], byte[]> records = consumer.poll(CALL);
            for (TopicPartition partition : records.partitions()) {
                read(partition, records.records(partition));
            }
            if (!records.isEmpty() && workMs > 0) {
                Thread.sleep(workMs);
            }
            commit();
        }
        consumer.close();
        say("left", "");
    }

    private void read(TopicPartition partition, List<ConsumerRecord<byte[], byte[]>> records) {
        String offsets = records.stream().map(it -> String.valueOf(it.offset())).collect(Collectors.joining(","));
        say("records", ",\"topic\":\"" + partition.topic() + "\",\"partition\":" + partition.partition()
                + ",\"offsets\":[" + offsets + "]");
        pending.put(partition, new OffsetAndMetadata(records.get(records.size() - 1).offset() + 1));
    }

    private void commit() {
        if (!commits) {
            pending.clear();
        }
        if (pending.isEmpty()) {
            return;
        }
        String told = ",\"begun\":" + System.nanoTime() + ",\"offsets\":" + pending.entrySet().stream()
                .map(it -> "[\"" + it.getKey().topic() + "\"," + it.getKey().partition() + "," + it.getValue().offset() + "]")
                .collect(Collectors.joining(",", "[", "]"));
        try {
            consumer.commitSync(new HashMap<>(pending));
            say("committed", told);
            pending.clear();
        } catch (CommitFailedException | RebalanceInProgressException | RetriableCommitFailedException
                | TimeoutException refused) {
            say("commit_failed", told + why(refused));
        }
    }

    @Override
    public void onPartitionsAssigned(Collection<TopicPartition> partitions) {
        say("assigned", list(partitions));
    }

    @Override
    public void onPartitionsRevoked(Collection<TopicPartition> partitions) {
        commit();
        pending.keySet().removeAll(partitions);
        say("revoked", list(partitions));
    }

    @Override
    public void onPartitionsLost(Collection<TopicPartition> partitions) {
        pending.keySet().removeAll(partitions);
        say("lost", list(partitions));
    }

    private static String list(Collection<TopicPartition> partitions) {
        List<String> words = new ArrayList<>();
        for (TopicPartition one : partitions) {
            words.add("[\"" + one.topic() + "\"," + one.partition() + "]");
        }
        return ",\"partitions\":[" + String.join(",", words) + "]";
    }

    private static String why(Exception refused) {
        String text = refused.getClass().getSimpleName() + ": " + refused.getMessage();
        return ",\"why\":\"" + text.replace("\\", "/").replace('"', '\'').replace('\n', ' ') + "\"";
    }

    private static void say(String event, String facts) {
        System.out.println("{\"event\":\"" + event + "\",\"at\":" + System.nanoTime() + facts + "}");
        System.out.flush();
    }
}
