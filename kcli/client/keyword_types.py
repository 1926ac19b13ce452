"""Keyword settings of `Admin`, `Consumer` and `Producer`, for type checkers.

Generated from the declarations by `python -m kcli.cli.docs`; kcli itself never imports it. A value is text, as in a
properties file, or a plain Python value; None is the default. The manual page kcli-configuration(7) explains them all.
"""

from __future__ import annotations

from typing import TypedDict

from kcli.secret import Secret


class AdminSettings(TypedDict, total=False):
    """Settings of `Admin`, besides `bootstrap_servers`."""

    allow_auto_create_topics: bool | str | None
    client_dns_lookup: str | None
    client_id: str | None
    client_rack: str | None
    connections_max_idle_ms: int | str | None
    default_api_timeout_ms: int | str | None
    enable_sasl_oauthbearer_unsecure_jwt: bool | str | None
    enable_ssl_certificate_verification: bool | str | None
    https_ca_location: str | None
    https_ca_pem: str | Secret | None
    max_decompressed_batch_bytes: int | str | None
    metadata_max_age_ms: int | str | None
    metadata_recovery_rebootstrap_trigger_ms: int | str | None
    metadata_recovery_strategy: str | None
    receive_buffer_bytes: int | str | None
    reconnect_backoff_max_ms: int | str | None
    reconnect_backoff_ms: int | str | None
    request_timeout_ms: int | str | None
    retry_backoff_max_ms: int | str | None
    retry_backoff_ms: int | str | None
    sasl_client_callback_handler_class: str | None
    sasl_jaas_config: str | Secret | None
    sasl_kerberos_keytab: str | None
    sasl_kerberos_principal: str | None
    sasl_kerberos_service_name: str | None
    sasl_login_callback_handler_class: str | None
    sasl_login_class: str | None
    sasl_login_connect_timeout_ms: int | str | None
    sasl_login_read_timeout_ms: int | str | None
    sasl_login_refresh_buffer_seconds: int | str | None
    sasl_login_refresh_min_period_seconds: int | str | None
    sasl_login_refresh_window_factor: float | str | None
    sasl_login_refresh_window_jitter: float | str | None
    sasl_login_retry_backoff_max_ms: int | str | None
    sasl_login_retry_backoff_ms: int | str | None
    sasl_mechanism: str | None
    sasl_oauthbearer_assertion_algorithm: str | None
    sasl_oauthbearer_assertion_claim_aud: str | None
    sasl_oauthbearer_assertion_claim_exp_seconds: int | str | None
    sasl_oauthbearer_assertion_claim_iss: str | None
    sasl_oauthbearer_assertion_claim_jti_include: bool | str | None
    sasl_oauthbearer_assertion_claim_nbf_seconds: int | str | None
    sasl_oauthbearer_assertion_claim_sub: str | None
    sasl_oauthbearer_assertion_file: str | None
    sasl_oauthbearer_assertion_private_key_file: str | None
    sasl_oauthbearer_assertion_private_key_passphrase: str | Secret | None
    sasl_oauthbearer_assertion_template_file: str | None
    sasl_oauthbearer_client_credentials_client_id: str | None
    sasl_oauthbearer_client_credentials_client_secret: str | Secret | None
    sasl_oauthbearer_config: str | Secret | None
    sasl_oauthbearer_extensions: str | Secret | None
    sasl_oauthbearer_grant_type: str | None
    sasl_oauthbearer_header_urlencode: bool | str | None
    sasl_oauthbearer_jwt_retriever_class: str | None
    sasl_oauthbearer_jwt_validator_class: str | None
    sasl_oauthbearer_method: str | None
    sasl_oauthbearer_scope: str | None
    sasl_oauthbearer_token_endpoint_url: str | None
    sasl_password: str | Secret | None
    sasl_username: str | None
    security_protocol: str | None
    send_buffer_bytes: int | str | None
    socket_connection_setup_timeout_max_ms: int | str | None
    socket_connection_setup_timeout_ms: int | str | None
    ssl_certificate_location: str | None
    ssl_cipher_suites: str | list[str] | tuple[str, ...] | None
    ssl_enabled_protocols: str | list[str] | tuple[str, ...] | None
    ssl_endpoint_identification_algorithm: str | None
    ssl_key_location: str | None
    ssl_key_password: str | Secret | None
    ssl_keystore_certificate_chain: str | Secret | None
    ssl_keystore_key: str | Secret | None
    ssl_keystore_location: str | None
    ssl_keystore_password: str | Secret | None
    ssl_keystore_type: str | None
    ssl_protocol: str | None
    ssl_truststore_certificates: str | Secret | None
    ssl_truststore_location: str | None
    ssl_truststore_password: str | Secret | None
    ssl_truststore_type: str | None


class ConsumerSettings(AdminSettings, total=False):
    """Settings of `Consumer`."""

    auto_commit_interval_ms: int | str | None
    auto_offset_reset: str | None
    bootstrap_servers: str | list[str] | tuple[str, ...] | None
    check_crcs: bool | str | None
    enable_auto_commit: bool | str | None
    exclude_internal_topics: bool | str | None
    fetch_max_bytes: int | str | None
    fetch_max_wait_ms: int | str | None
    fetch_min_bytes: int | str | None
    group_id: str | None
    group_instance_id: str | None
    group_protocol: str | None
    group_remote_assignor: str | None
    heartbeat_interval_ms: int | str | None
    isolation_level: str | None
    max_partition_fetch_bytes: int | str | None
    max_poll_interval_ms: int | str | None
    max_poll_records: int | str | None
    partition_assignment_strategy: str | list[str] | tuple[str, ...] | None
    session_timeout_ms: int | str | None


class ProducerSettings(AdminSettings, total=False):
    """Settings of `Producer`."""

    acks: int | str | None
    batch_size: int | str | None
    bootstrap_servers: str | list[str] | tuple[str, ...] | None
    buffer_memory: int | str | None
    compression_type: str | None
    delivery_timeout_ms: int | str | None
    enable_idempotence: bool | str | None
    linger_ms: int | str | None
    max_block_ms: int | str | None
    max_in_flight_requests_per_connection: int | str | None
    max_request_size: int | str | None
    metadata_max_idle_ms: int | str | None
    partitioner_ignore_keys: bool | str | None
    retries: int | str | None
    transaction_timeout_ms: int | str | None
    transactional_id: str | None
