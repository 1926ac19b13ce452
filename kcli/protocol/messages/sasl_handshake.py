"""SaslHandshake (17): agree on a SASL mechanism. Never flexible."""

from kcli.protocol.wire import *


@message(key=17, versions="0-1", flexible=None)
class SaslHandshakeRequest(Request["SaslHandshakeResponse"]):
    """Propose a mechanism. After v1 the exchange continues in SaslAuthenticate, after v0 in plain frames."""

    mechanism: String = ""


@message(key=17, versions="0-1", flexible=None)
class SaslHandshakeResponse(Message):
    """The enabled mechanisms; error 33 if the proposed one is not enabled."""

    error_code: Int16 = 0
    mechanisms: Array[String] = []
