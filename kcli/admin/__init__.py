"""Topics, cluster and configuration, as data."""
