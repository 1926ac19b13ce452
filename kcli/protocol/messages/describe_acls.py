"""DescribeAcls (29): the ACLs that match a filter (KIP-11, KIP-290). The numbers are in `kcli.protocol.acls`."""

from kcli.protocol.wire import *


@message(key=29, versions="1-3", flexible="2+")
class DescribeAclsRequest(Request["DescribeAclsResponse"]):
    """Ask for ACLs. Null and ANY (1) match all; the pattern type MATCH (2) matches what affects the named resource."""

    resource_type_filter: Int8 = 0
    resource_name_filter: NullableString = ""
    pattern_type_filter: Int8 = since(1, default=3)
    principal_filter: NullableString = ""
    host_filter: NullableString = ""
    operation: Int8 = 0
    permission_type: Int8 = 0


@struct
class AclDescription:
    """An ACL of the resource."""

    principal: String = ""
    host: String = ""
    operation: Int8 = 0
    permission_type: Int8 = 0


@struct
class DescribeAclsResource:
    """A resource pattern with its ACLs."""

    resource_type: Int8 = 0
    resource_name: String = ""
    pattern_type: Int8 = since(1, default=3)
    acls: Array[AclDescription] = []


@message(key=29, versions="1-3", flexible="2+")
class DescribeAclsResponse(Message):
    """The ACLs by resource pattern, or the error."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: NullableString = ""
    resources: Array[DescribeAclsResource] = []
