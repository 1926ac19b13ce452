"""CreateAcls (30): add ACLs (KIP-11, KIP-290). The numbers are in `kcli.protocol.acls`."""

from kcli.protocol.wire import *


@struct
class AclCreation:
    """An ACL: who may do what, on which resources, from where. The pattern is literal (3) or prefixed (4)."""

    resource_type: Int8 = 0
    resource_name: String = ""
    resource_pattern_type: Int8 = since(1, default=3)
    principal: String = ""
    host: String = ""
    operation: Int8 = 0
    permission_type: Int8 = 0


@message(key=30, versions="1-3", flexible="2+")
class CreateAclsRequest(Request["CreateAclsResponse"]):
    """Add these ACLs. v3 adds the resource type USER (7)."""

    creations: Array[AclCreation] = []


@struct
class AclCreationResult:
    """The result for one ACL."""

    error_code: Int16 = 0
    error_message: NullableString = ""


@message(key=30, versions="1-3", flexible="2+")
class CreateAclsResponse(Message):
    """A result for each ACL, in the order of the request."""

    throttle_time_ms: Int32 = 0
    results: Array[AclCreationResult] = []
