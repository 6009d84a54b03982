"""Files that grow by whole lines, and leases of their folders."""

from stepscore._journals.found_leases import LEASE_S, Held, LeaseObserver, find_lease, is_leased
from stepscore._journals.leases import Lease, new_file, take_lease
from stepscore._journals.line_files import MAX_LINE_BYTES, LineFile, whole_lines

__all__ = [
    "LEASE_S",
    "MAX_LINE_BYTES",
    "Held",
    "Lease",
    "LeaseObserver",
    "LineFile",
    "find_lease",
    "is_leased",
    "new_file",
    "take_lease",
    "whole_lines",
]
