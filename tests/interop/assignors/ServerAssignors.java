import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedOutputStream;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.UUID;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.coordinator.common.runtime.CoordinatorMetadataImage;
import org.apache.kafka.coordinator.group.api.assignor.GroupAssignment;
import org.apache.kafka.coordinator.group.api.assignor.GroupSpec;
import org.apache.kafka.coordinator.group.api.assignor.PartitionAssignor;
import org.apache.kafka.coordinator.group.api.assignor.SubscribedTopicDescriber;
import org.apache.kafka.coordinator.group.api.assignor.SubscriptionType;
import org.apache.kafka.coordinator.group.assignor.RangeAssignor;
import org.apache.kafka.coordinator.group.assignor.UniformAssignor;
import org.apache.kafka.coordinator.group.modern.Assignment;
import org.apache.kafka.coordinator.group.modern.GroupSpecImpl;
import org.apache.kafka.coordinator.group.modern.MemberSubscriptionAndAssignmentImpl;
import org.apache.kafka.coordinator.group.modern.TopicIds;

/**
 * The group coordinator's own assignors (KIP-848) as a judge: a JSON object a line on stdin, the answer on stdout.
 *
 * {"topics": {name: {"id": uuid, "partitions": n}}, "members": [{"id", "instance", "topics": [name], "owned":
 * [[topic, partition]]}], "strategies": [name]} is answered with {strategy: {"assignment": {id: [[topic, partition]]},
 * "ms": time of assign}}. Members and what they own are put into tables as the coordinator does, in the order told.
 */
public class ServerAssignors {
    static final ObjectMapper JSON = new ObjectMapper();

    public static void main(String[] args) throws Exception {
        PrintStream out = new PrintStream(new BufferedOutputStream(System.out, 1 << 16), false, "UTF-8");
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, "UTF-8"));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            out.println(answer(JSON.readTree(line)));
            if (!in.ready())
                out.flush();
        }
    }

    static PartitionAssignor assignor(String name) {
        return switch (name) {
            case "uniform" -> new UniformAssignor();
            case "server-range" -> new RangeAssignor();
            default -> throw new IllegalArgumentException(name);
        };
    }

    static ObjectNode answer(JsonNode question) {
        Topics topics = new Topics(question.get("topics"));
        ObjectNode answer = JSON.createObjectNode();
        for (JsonNode strategy : question.get("strategies")) {
            GroupSpec group = group(question.get("members"), topics);
            long start = System.nanoTime();
            GroupAssignment found = assignor(strategy.textValue()).assign(group, topics);
            ObjectNode told = answer.putObject(strategy.textValue());
            told.put("ms", (System.nanoTime() - start) / 1e6);
            ObjectNode assignment = told.putObject("assignment");
            for (JsonNode member : question.get("members"))
                assignment.putArray(member.get("id").textValue());
            found.members().forEach((id, assigned) -> assigned.partitions().forEach((topic, partitions) -> {
                for (int partition : partitions)
                    ((ArrayNode) assignment.get(id)).addArray().add(topics.name(topic)).add(partition);
            }));
        }
        return answer;
    }

    static GroupSpec group(JsonNode told, Topics topics) {
        Map<String, MemberSubscriptionAndAssignmentImpl> members = new HashMap<>();
        Map<Uuid, Map<Integer, String>> owners = new HashMap<>();
        Set<Set<String>> subscriptions = new HashSet<>();
        for (JsonNode member : told) {
            String id = member.get("id").textValue();
            List<String> names = new ArrayList<>();
            member.get("topics").forEach(name -> names.add(name.textValue()));
            Set<String> wanted = new HashSet<>(names);
            subscriptions.add(wanted);
            Map<Uuid, List<Integer>> listed = new LinkedHashMap<>();
            for (JsonNode owned : member.get("owned")) {
                Uuid topic = topics.id(owned.get(0).textValue());
                listed.computeIfAbsent(topic, __ -> new ArrayList<>()).add(owned.get(1).intValue());
                owners.computeIfAbsent(topic, __ -> new HashMap<>()).put(owned.get(1).intValue(), id);
            }
            Map<Uuid, Set<Integer>> target = new HashMap<>();
            listed.forEach((topic, partitions) -> target.put(topic, new HashSet<>(partitions)));
            Optional<String> instance = Optional.ofNullable(member.get("instance").textValue());
            members.put(id, new MemberSubscriptionAndAssignmentImpl(
                Optional.empty(), instance, new TopicIds(wanted, topics), new Assignment(target)));
        }
        SubscriptionType type =
            subscriptions.size() == 1 ? SubscriptionType.HOMOGENEOUS : SubscriptionType.HETEROGENEOUS;
        return new GroupSpecImpl(members, type, owners);
    }

    /** The topics that exist. */
    static class Topics implements TopicIds.TopicResolver, SubscribedTopicDescriber {
        final Map<String, Uuid> ids = new HashMap<>();
        final Map<Uuid, String> names = new HashMap<>();
        final Map<Uuid, Integer> partitions = new HashMap<>();

        Topics(JsonNode told) {
            told.fields().forEachRemaining(topic -> {
                UUID id = UUID.fromString(topic.getValue().get("id").textValue());
                Uuid kafkas = new Uuid(id.getMostSignificantBits(), id.getLeastSignificantBits());
                ids.put(topic.getKey(), kafkas);
                names.put(kafkas, topic.getKey());
                partitions.put(kafkas, topic.getValue().get("partitions").intValue());
            });
        }

        public Uuid id(String name) {
            return ids.get(name);
        }

        public String name(Uuid id) {
            return names.get(id);
        }

        public CoordinatorMetadataImage image() {
            return null;
        }

        public void clear() {
        }

        public int numPartitions(Uuid id) {
            return partitions.getOrDefault(id, -1);
        }

        public Set<String> racksForPartition(Uuid id, int partition) {
            return Set.of();
        }
    }
}
