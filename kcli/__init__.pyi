from kcli.admin.client import Admin as Admin
from kcli.aio.admin import AsyncAdmin as AsyncAdmin
from kcli.consumer.consumer import Consumer as Consumer
from kcli.errors import AuthenticationError as AuthenticationError
from kcli.errors import BrokerError as BrokerError
from kcli.errors import ConfigError as ConfigError
from kcli.errors import KcliError as KcliError
from kcli.errors import NotFound as NotFound
from kcli.errors import OutcomeUnknown as OutcomeUnknown
from kcli.errors import Refused as Refused
from kcli.errors import SerializationError as SerializationError
from kcli.errors import TimeoutExpired as TimeoutExpired
from kcli.errors import TransactionFailed as TransactionFailed
from kcli.errors import WakeupError as WakeupError
from kcli.producer.producer import Producer as Producer
from kcli.structs import OffsetAndMetadata as OffsetAndMetadata
from kcli.structs import TopicPartition as TopicPartition

__version__: str
