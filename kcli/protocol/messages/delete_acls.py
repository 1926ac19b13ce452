"""DeleteAcls (31): remove the ACLs that match filters (KIP-11, KIP-290). The numbers are in `kcli.protocol.acls`."""

from kcli.protocol.wire import *


@struct
class DeleteAclsFilter:
    """A filter, with the same meaning as in DescribeAcls."""

    resource_type_filter: Int8 = 0
    resource_name_filter: NullableString = ""
    pattern_type_filter: Int8 = since(1, default=3)
    principal_filter: NullableString = ""
    host_filter: NullableString = ""
    operation: Int8 = 0
    permission_type: Int8 = 0


@message(key=31, versions="1-3", flexible="2+")
class DeleteAclsRequest(Request["DeleteAclsResponse"]):
    """Remove the ACLs that match any of the filters."""

    filters: Array[DeleteAclsFilter] = []


@struct
class DeleteAclsMatchingAcl:
    """A removed ACL, or the error with which it was kept."""

    error_code: Int16 = 0
    error_message: NullableString = ""
    resource_type: Int8 = 0
    resource_name: String = ""
    pattern_type: Int8 = since(1, default=3)
    principal: String = ""
    host: String = ""
    operation: Int8 = 0
    permission_type: Int8 = 0


@struct
class DeleteAclsFilterResult:
    """The ACLs that matched one filter, or the error of the filter."""

    error_code: Int16 = 0
    error_message: NullableString = ""
    matching_acls: Array[DeleteAclsMatchingAcl] = []


@message(key=31, versions="1-3", flexible="2+")
class DeleteAclsResponse(Message):
    """A result for each filter, in the order of the request."""

    throttle_time_ms: Int32 = 0
    filter_results: Array[DeleteAclsFilterResult] = []
