"""The small producer: records into batches, batches to partition leaders, each exactly once or its error told."""
