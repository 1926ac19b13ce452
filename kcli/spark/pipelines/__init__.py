"""What `kcli spark` computes: one module for each pipeline, from a Kafka source to a table or to files."""
