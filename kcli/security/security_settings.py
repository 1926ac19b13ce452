"""Kafka's properties for TLS and SASL, as clients and brokers' listeners have them. Pure.

Source: https://kafka.apache.org/documentation/#consumerconfigs and #brokerconfigs for 4.3.
"""

from __future__ import annotations

from kcli.settings import Boolean, Double, Int, List, Long, Password, Settings, Short, String, setting

PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")


class SecuritySettings(Settings):
    """The properties `ssl.*` and `sasl.*`. None means that a property is not set."""

    security_protocol: String = setting(
        "PLAINTEXT", "Protocol of the connections to brokers.", choices=PROTOCOLS, ignore_case=True
    )

    # TLS
    ssl_protocol: String = setting("TLSv1.3", "Highest TLS version.", choices=("TLSv1.3", "TLSv1.2", "TLS", "SSL"))
    ssl_enabled_protocols: List = setting(
        ("TLSv1.2", "TLSv1.3"),
        "TLS versions that may be used. Versions before TLSv1.2 are never used, as in current Java.",
        choices=("TLSv1.2", "TLSv1.3", "TLSv1.1", "TLSv1", "SSLv3", "SSLv2Hello"),
    )
    ssl_cipher_suites: List = setting((), "Cipher suites by their IANA names; empty: OpenSSL's choice.")
    ssl_endpoint_identification_algorithm: String = setting(
        "https",
        "Check that the certificate is for the broker's host name; empty: no check.",
        choices=("https", ""),
        ignore_case=True,
    )
    ssl_truststore_type: String = setting("JKS", "Type of the trust store: JKS, PKCS12 or PEM.")
    ssl_truststore_location: String | None = setting(None, "File of the trust store: JKS, PKCS12 or PEM.")
    ssl_truststore_password: Password | None = setting(None, "Password of the trust store.")
    ssl_truststore_certificates: Password | None = setting(None, "Trusted certificates as PEM text.")
    ssl_keystore_type: String = setting("JKS", "Type of the key store: JKS, PKCS12 or PEM.")
    ssl_keystore_location: String | None = setting(None, "File with the own key and certificates: JKS, PKCS12 or PEM.")
    ssl_keystore_password: Password | None = setting(None, "Password of the key store.")
    ssl_keystore_key: Password | None = setting(None, "Own private key as PEM text.")
    ssl_keystore_certificate_chain: Password | None = setting(None, "Own certificate and its chain as PEM text.")
    ssl_key_password: Password | None = setting(None, "Password of the private key.")

    # TLS with librdkafka's properties that Java lacks
    ssl_certificate_location: String | None = setting(None, "File with the own certificate and its chain as PEM.")
    ssl_key_location: String | None = setting(None, "File with the own private key as PEM.")
    enable_ssl_certificate_verification: Boolean = setting(
        True, "Check the broker's certificate; false accepts any certificate, so anyone can read along."
    )
    https_ca_location: String | None = setting(None, "Trusted certificates of the token endpoint: a PEM file.")
    https_ca_pem: Password | None = setting(None, "Trusted certificates of the token endpoint as PEM text.")

    # SASL
    sasl_mechanism: String = setting(
        "GSSAPI",
        "SASL mechanism; upper and lower case matter.",
        choices=("GSSAPI", "PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER", "AWS_MSK_IAM"),
    )
    sasl_jaas_config: Password | None = setting(None, "Login module and credentials, in the format of JAAS.")
    sasl_client_callback_handler_class: String | None = setting(None, "Java class; known names only.")
    sasl_login_callback_handler_class: String | None = setting(None, "Java class; known names only.")
    sasl_login_class: String | None = setting(None, "Java class; known names only.")
    sasl_kerberos_service_name: String | None = setting(None, "Kerberos name of the brokers' service.")

    # The token of OAUTHBEARER
    sasl_login_connect_timeout_ms: Int | None = setting(None, "Timeout of the connection to the token endpoint.")
    sasl_login_read_timeout_ms: Int | None = setting(None, "Timeout of the answer of the token endpoint.")
    sasl_login_retry_backoff_ms: Long = setting(100, "Backoff before the token is requested again.", at_least=0)
    sasl_login_retry_backoff_max_ms: Long = setting(10_000, "Largest backoff between token requests.", at_least=0)
    sasl_login_refresh_window_factor: Double = setting(
        0.8, "Part of a token's lifetime after which a new one is requested.", at_least=0.5, at_most=1.0
    )
    sasl_login_refresh_window_jitter: Double = setting(
        0.05, "Random part of the lifetime that is added to the window.", at_least=0.0, at_most=0.25
    )
    sasl_login_refresh_min_period_seconds: Short = setting(
        60, "Shortest time between two tokens.", at_least=0, at_most=900
    )
    sasl_login_refresh_buffer_seconds: Short = setting(
        300, "Time before the end of a token in which it is replaced.", at_least=0, at_most=3600
    )
    sasl_oauthbearer_token_endpoint_url: String | None = setting(
        None, "Token endpoint: http, https, or file: for a file with the token."
    )
    sasl_oauthbearer_client_credentials_client_id: String | None = setting(None, "Client id for the token endpoint.")
    sasl_oauthbearer_client_credentials_client_secret: Password | None = setting(
        None, "Client secret for the token endpoint."
    )
    sasl_oauthbearer_scope: String | None = setting(None, "Scope of the token.")
    sasl_oauthbearer_header_urlencode: Boolean = setting(False, "URL-encode client id and secret in the header.")
    sasl_oauthbearer_jwt_retriever_class: String = setting(
        "org.apache.kafka.common.security.oauthbearer.DefaultJwtRetriever", "Java class; known names only."
    )
    sasl_oauthbearer_jwt_validator_class: String = setting(
        "org.apache.kafka.common.security.oauthbearer.DefaultJwtValidator", "Java class; known names only."
    )
    sasl_oauthbearer_assertion_algorithm: String = setting(
        "RS256", "Signature of the assertion (KIP-1139).", choices=("RS256", "ES256"), ignore_case=True
    )
    sasl_oauthbearer_assertion_private_key_file: String | None = setting(None, "Key that signs the assertion: PEM.")
    sasl_oauthbearer_assertion_private_key_passphrase: Password | None = setting(None, "Password of that key.")
    sasl_oauthbearer_assertion_file: String | None = setting(None, "File with a finished assertion.")
    sasl_oauthbearer_assertion_template_file: String | None = setting(None, "JSON with more claims and headers.")
    sasl_oauthbearer_assertion_claim_aud: String | None = setting(None, "Claim aud of the assertion.")
    sasl_oauthbearer_assertion_claim_iss: String | None = setting(None, "Claim iss of the assertion.")
    sasl_oauthbearer_assertion_claim_sub: String | None = setting(None, "Claim sub of the assertion.")
    sasl_oauthbearer_assertion_claim_exp_seconds: Int = setting(
        300, "Lifetime of the assertion.", at_least=0, at_most=86_400
    )
    sasl_oauthbearer_assertion_claim_nbf_seconds: Int = setting(
        60, "The assertion is valid from this long before now.", at_least=0, at_most=3600
    )
    sasl_oauthbearer_assertion_claim_jti_include: Boolean = setting(False, "Give the assertion an id, claim jti.")
    sasl_oauthbearer_sub_claim_name: String = setting("sub", "Claim with the principal's name.")
    sasl_oauthbearer_scope_claim_name: String = setting("scope", "Claim with the scope.")
    sasl_oauthbearer_clock_skew_seconds: Int = setting(30, "Allowed difference of clocks.", at_least=0)
