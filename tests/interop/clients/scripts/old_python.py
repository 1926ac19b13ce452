"""Make kafka-python 2.0.2 importable: its copy of six does not work on Python 3.12 and later."""

import sys

import six
import six.moves

if sys.version_info >= (3, 12):
    sys.modules["kafka.vendor.six"] = six
    sys.modules["kafka.vendor.six.moves"] = six.moves
