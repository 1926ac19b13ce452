"""SaslAuthenticate (36), v0-2: refused with ILLEGAL_SASL_STATE after the authentication, and on listeners without SASL.

Before and during the authentication, `kcli.broker.security.authenticator` answers it. Deliberately missing: nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kcli.broker.serving.request_context import RequestContext
from kcli.error_codes import ErrorCode
from kcli.protocol.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse

if TYPE_CHECKING:
    from kcli.broker.broker import Broker


def handle(broker: Broker, request: SaslAuthenticateRequest, context: RequestContext) -> SaslAuthenticateResponse:
    return SaslAuthenticateResponse(
        error_code=ErrorCode.ILLEGAL_SASL_STATE, error_message="This listener does not use SASL."
    )
