"""The processes of a machine on the host: started and recorded by this process of the host, or by an earlier one."""

from .adopted import AdoptedProcess
from .child import MonitorProcess
from .record import MachineRecord, ProcessRecord, delete_record, read_record, write_record

__all__ = [
    "AdoptedProcess",
    "MachineRecord",
    "MonitorProcess",
    "ProcessRecord",
    "delete_record",
    "read_record",
    "write_record",
]
