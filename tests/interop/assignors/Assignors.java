import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedOutputStream;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import org.apache.kafka.clients.consumer.ConsumerGroupMetadata;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.Assignment;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.GroupSubscription;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.Subscription;
import org.apache.kafka.clients.consumer.CooperativeStickyAssignor;
import org.apache.kafka.clients.consumer.RangeAssignor;
import org.apache.kafka.clients.consumer.RoundRobinAssignor;
import org.apache.kafka.clients.consumer.StickyAssignor;
import org.apache.kafka.clients.consumer.internals.ConsumerProtocol;
import org.apache.kafka.common.Cluster;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.PartitionInfo;
import org.apache.kafka.common.TopicPartition;

/**
 * Kafka's own assignors as a judge: a JSON object a line on stdin, the answer a line on stdout.
 *
 * {"topics": {name: [[racks of the replicas] for each partition]}, "members": [{"id", "instance", "blobs": {strategy: hex}}],
 * "strategies": [name]} is answered with {strategy: {"assignment": {id: [[topic, partition]]}, "ms": time of assign}}, or
 * with {strategy: {"thrown": text}}. A blob is what a member sends as its metadata when it joins.
 * {"subscribe": [topics], "strategy", "owned": [[topic, partition]], "generation", "rack"} is answered with {"blob"}:
 * what a Java member says that was last assigned these partitions in this generation.
 */
public class Assignors {
    static final ObjectMapper JSON = new ObjectMapper();
    static final HexFormat HEX = HexFormat.of();

    public static void main(String[] args) throws Exception {
        PrintStream out = new PrintStream(new BufferedOutputStream(System.out, 1 << 16), false, "UTF-8");
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, "UTF-8"));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            JsonNode question = JSON.readTree(line);
            out.println(question.has("subscribe") ? subscribe(question) : assign(question));
            if (!in.ready())
                out.flush();
        }
    }

    static ConsumerPartitionAssignor assignor(String name) {
        return switch (name) {
            case "range" -> new RangeAssignor();
            case "roundrobin" -> new RoundRobinAssignor();
            case "sticky" -> new StickyAssignor();
            case "cooperative-sticky" -> new CooperativeStickyAssignor();
            default -> throw new IllegalArgumentException(name);
        };
    }

    static ObjectNode assign(JsonNode question) {
        Cluster cluster = cluster(question.get("topics"));
        ObjectNode answer = JSON.createObjectNode();
        for (JsonNode strategy : question.get("strategies")) {
            Map<String, Subscription> members = members(question.get("members"), strategy.textValue());
            assign(assignor(strategy.textValue()), cluster, members, answer.putObject(strategy.textValue()));
        }
        return answer;
    }

    static Map<String, Subscription> members(JsonNode told, String strategy) {
        Map<String, Subscription> members = new HashMap<>();
        for (JsonNode member : told) {
            ByteBuffer blob = ByteBuffer.wrap(HEX.parseHex(member.get("blobs").get(strategy).textValue()));
            Subscription subscription = ConsumerProtocol.deserializeSubscription(blob);
            subscription.setGroupInstanceId(Optional.ofNullable(member.get("instance").textValue()));
            members.put(member.get("id").textValue(), subscription);
        }
        return members;
    }

    static void assign(ConsumerPartitionAssignor assignor, Cluster cluster, Map<String, Subscription> members,
                       ObjectNode answer) {
        long start = System.nanoTime();
        Map<String, Assignment> found;
        try {
            found = assignor.assign(cluster, new GroupSubscription(members)).groupAssignment();
        } catch (RuntimeException thrown) {
            answer.put("thrown", thrown.toString());
            return;
        }
        answer.put("ms", (System.nanoTime() - start) / 1e6);
        ObjectNode assignment = answer.putObject("assignment");
        found.forEach((id, assigned) -> {
            ArrayNode list = assignment.putArray(id);
            assigned.partitions().forEach(tp -> list.addArray().add(tp.topic()).add(tp.partition()));
        });
    }

    static Cluster cluster(JsonNode topics) {
        List<PartitionInfo> partitions = new ArrayList<>();
        Set<Node> nodes = new HashSet<>();
        topics.fields().forEachRemaining(topic -> {
            int number = 0;
            for (JsonNode racks : topic.getValue()) {
                List<Node> replicas = new ArrayList<>();
                for (JsonNode rack : racks)
                    replicas.add(new Node(rack.textValue().hashCode(), "host", 9092, rack.textValue()));
                if (replicas.isEmpty())
                    replicas.add(new Node(0, "host", 9092));
                nodes.addAll(replicas);
                Node[] all = replicas.toArray(new Node[0]);
                partitions.add(new PartitionInfo(topic.getKey(), number++, all[0], all, all));
            }
        });
        return new Cluster("cluster", nodes, partitions, Set.of(), Set.of());
    }

    static ObjectNode subscribe(JsonNode question) {
        ConsumerPartitionAssignor assignor = assignor(question.get("strategy").textValue());
        List<TopicPartition> owned = new ArrayList<>();
        for (JsonNode partition : question.get("owned"))
            owned.add(new TopicPartition(partition.get(0).textValue(), partition.get(1).intValue()));
        int generation = question.get("generation").intValue();
        if (generation >= 0)
            assignor.onAssignment(new Assignment(owned),
                new ConsumerGroupMetadata("group", generation, "member", Optional.empty()));
        List<String> topics = new ArrayList<>();
        question.get("subscribe").forEach(topic -> topics.add(topic.textValue()));
        boolean eager = assignor.supportedProtocols().size() == 1;
        Subscription subscription = new Subscription(topics, assignor.subscriptionUserData(new HashSet<>(topics)),
            eager ? List.of() : owned, generation, Optional.ofNullable(question.get("rack").textValue()));
        ByteBuffer blob = ConsumerProtocol.serializeSubscription(subscription);
        byte[] bytes = new byte[blob.remaining()];
        blob.get(bytes);
        return JSON.createObjectNode().put("blob", HEX.formatHex(bytes));
    }
}
