# SPDX-License-Identifier: BSD-3-Clause
"""`Shim`: a controller of `baselines/` in the kernel, with reports of every connection, limits and overrides."""

import ipaddress
import os
import struct
import time
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from ncc.core.errors import ConfigError, DatapathError
from ncc.core.flows import FloatArray, IntArray
from ncc.envs.linux import layout, objects
from ncc.envs.linux.extension import extension
from ncc.envs.linux.libbpf import BPF_F_LINK, KernelMap, Object, Program, RegisteredError
from ncc.envs.linux.orphans import maps_of
from ncc.envs.native.params import check_params

READS = 100
"""Attempts to read a report that the kernel is writing: reading takes microseconds, writing less than one."""
STRUCT_OPS = "shim"
CONTROL = "shim_cong_control"
"""Name of the program that handles an ACK."""
TIME_MAX_NS = 2**63
RATE_MAX = 2.0**40
"""Largest rate in bytes/s; the kernel's program lowers a larger one to this."""


class Shim:
    """Controller `controller`, registered with the kernel as `name` until `close`, or until this process ends.

    Every socket of the machine, in any network namespace, that selects `name` by TCP_CONGESTION uses it. Limits and
    overrides hold only while `beat` is called more often than every `timeout_s`. Otherwise the controller decides alone
    from the next ACK on, and each connection that falls back is counted.

    A host's limit applies to bytes of IP packets with data. It is split by weight among those of its connections that
    have data. Unused parts go to the others, to within an eighth of each share and after some milliseconds; when many
    connections wake up at once the host may exceed its limit for that time (`bpf/shim_share.h`). A connection can
    always send a packet every 100 ms, whatever the limit.

    Args:
        controller: name of a header of `baselines/`.
        params: parameters that differ from their defaults.
        timeout_s: seconds without `beat` after which limits and overrides are ignored, > 0.
        name: registered name; None: that of `ncc.envs.linux.objects.congestion_name`.

    Raises:
        ConfigError: `timeout_s` or a parameter is out of range, or the name is not allowed.
        UnknownNameError: no such controller or parameter.
        DatapathError: the controller was not built, or the kernel refuses it.
    """

    def __init__(
        self, controller: str, params: Sequence[tuple[str, int]] = (), *, timeout_s: float, name: str | None = None
    ) -> None:
        _check_timeout(timeout_s)
        path = objects.controller_object(controller)
        rows = extension().params(controller)
        check_params(controller, rows, tuple(params))
        given = dict(params)
        values = [given.get(name, default) for name, default, *_ in rows]
        self._name(controller, name)
        self._adopted: dict[str, KernelMap] = {}
        usual = self.name == objects.congestion_name(controller)
        data = None if usual else objects.renamed(path, controller, self.name)
        self._object: Object | None = Object(path, data)
        try:
            self._load(values, int(timeout_s * 1e9))
        except BaseException:
            self.close()
            raise

    @classmethod
    def adopt(cls, controller: str, *, timeout_s: float) -> "Shim":
        """Take over the shim of an agent that has ended; its connections obey again from the next beat on.

        New connections can use it only if another process has kept it registered.

        Raises:
            ConfigError: `timeout_s` is out of range.
            DatapathError: there are no connections left under `controller`, or their agent is alive.
        """
        _check_timeout(timeout_s)
        alive, left = False, []
        try:
            for maps in maps_of(CONTROL):
                shim = cls.__new__(cls)
                shim._name(controller)
                shim._object, shim._adopted = None, maps
                left.append(shim)
                if _controller_of(maps) != controller:
                    left.pop().close()
                    continue
                shim._look(maps)
                silent = time.monotonic_ns() - int(shim.agent["beat_ns"][0]) > int(shim.agent["timeout_ns"][0])
                if not silent or not (shim.reports["state"] == layout.LIVE).any():
                    left.pop().close()
                alive |= not silent
            if left:  # older ones may stay until their connections give up
                last = max(left, key=lambda shim: int(shim.agent["beat_ns"][0]))
                left.remove(last)
                last.agent["timeout_ns"] = int(timeout_s * 1e9)
                return last
        finally:
            for shim in left:
                shim.close()
        why = "the agent of those that are there is alive" if alive else "there are none"
        raise DatapathError(f"No connections are left to adopt that {controller} runs: {why}.")

    def _load(self, values: list[int], timeout_ns: int) -> None:
        loaded = self._loaded()
        loaded.map(STRUCT_OPS).add_flags(BPF_F_LINK)
        loaded.map(".rodata.params").initial().view(layout.PARAMS)["values"][0, : len(values)] = values
        loaded.load()
        self._look({entry.name: entry for entry in loaded.maps()})
        self.agent["timeout_ns"] = timeout_ns
        for slot in range(layout.FLOWS_MAX):
            self.free_slots.update(None, struct.pack("=I", slot))
        try:
            loaded.register(STRUCT_OPS)
        except RegisteredError:
            raise RegisteredError(
                f"The kernel would not register the congestion control {self.name}: the kernel itself has it, or "
                "another process has registered it, whichever network namespace it is in. End that first, or take "
                "another name (`ncc host run --name`)."
            ) from None

    def _name(self, controller: str, name: str | None = None) -> None:
        self.controller = controller
        self.name = objects.congestion_name(controller) if name is None else name
        """Name by which sockets select it (TCP_CONGESTION)."""
        self.slots: NDArray[np.intp] = np.empty(0, np.intp)
        """Indices in `decisions` of the rows that the last call of `flows` returned."""
        self._live: NDArray[np.void] = np.empty(0, layout.REPORT)
        self._live_slots = self.slots

    def _look(self, maps: Mapping[str, KernelMap]) -> None:
        self.reports: NDArray[np.void] = maps["reports"].view(layout.REPORT)
        """Rows [FLOWS_MAX] of `layout.REPORT`, which the kernel writes at any time; `flows` makes consistent copies."""
        self.decisions: NDArray[np.void] = maps["decisions"].view(layout.DECISION)
        """Rows [FLOWS_MAX] of `layout.DECISION`, by the same slots; set `generation` to that of the report."""
        self.hosts: NDArray[np.void] = maps["hosts"].view(layout.HOST)
        """Rows [HOSTS_MAX] of `layout.HOST`."""
        self.agent: NDArray[np.void] = maps["agent"].view(layout.AGENT)
        """Row [1] of `layout.AGENT`."""
        self._addresses = maps["addresses"]
        self.free_slots = maps["free_slots"]
        """Queue of free slots; `flows` puts the slots of finished connections back."""

    def add_host(self, index: int, address: str) -> None:
        """Put connections that begin from now on at `address` (IPv4) under the limit of agent `index`.

        A host may have several addresses.

        Raises:
            ConfigError: the index is out of range, or the address is not an IPv4 address.
        """
        if not 0 <= _whole(index) < layout.HOSTS_MAX:
            raise ConfigError(f"A host's index must be a whole number from 0 to {layout.HOSTS_MAX - 1}, got {index!r}")
        try:
            packed = ipaddress.IPv4Address(address).packed
        except ValueError as error:
            raise ConfigError(f"A host's address must be an IPv4 address, got {address!r} ({error})") from None
        self._check_open()
        self._addresses.update(packed, struct.pack("=I", index))

    def beat(self, now_ns: int | None = None) -> None:
        """Renew limits and overrides for another `timeout_s`; `now_ns` is `time.monotonic_ns()`.

        Raises:
            ConfigError: `now_ns` is not a time of that clock.
        """
        at_ns = time.monotonic_ns() if now_ns is None else now_ns
        if not 0 <= _whole(at_ns) < TIME_MAX_NS:
            raise ConfigError(f"Shim.beat takes a time of time.monotonic_ns(), a whole number, got {at_ns!r}")
        self.agent["beat_ns"] = at_ns

    def limit(self, rates_bps: FloatArray) -> None:
        """Limit hosts 0 to n - 1 to rates [n] in bits/s of IP packets with data; inf means no limit.

        Raises:
            ConfigError: there are more rates than hosts, or one is NaN, zero or negative.
        """
        rates = np.asarray(rates_bps, dtype=np.float64)
        if rates.ndim != 1 or len(rates) > layout.HOSTS_MAX:
            raise ConfigError(f"Limits must be one number per host, {layout.HOSTS_MAX} at most, got {rates.shape}.")
        if not (rates > 0).all():
            host = int(np.flatnonzero(~(rates > 0))[0])
            raise ConfigError(f"The limit of host {host} must be above 0 bit/s (inf: none), got {rates[host]}.")
        bytes_per_s = np.where(np.isinf(rates), 0.0, np.clip(rates / 8, 1.0, RATE_MAX))
        rows = self.hosts[: len(rates)]
        rows["rate_bytes_per_s"] = bytes_per_s.astype(np.uint64)
        rows["decision"] += np.uint64(1)

    def weigh(self, flows: IntArray, weights: IntArray) -> None:
        """Set the weights of flows, given by their numbers (SO_MARK), from the next ACK of each on; both are [n].

        Flows that the last call of `flows` did not report as live are skipped.

        Raises:
            ConfigError: a weight is not from 1 to `layout.WEIGHT_MAX`.
        """
        if len(weights) and not (weights.min() >= 1 and weights.max() <= layout.WEIGHT_MAX):
            raise ConfigError(f"A flow's weight must be from 1 to {layout.WEIGHT_MAX}, got {weights}.")
        live = self._live
        at = np.searchsorted(live["flow"], flows)
        known = np.flatnonzero(at < len(live))
        known = known[live["flow"][at[known]] == flows[known]]
        slots = self._live_slots[at[known]]
        self.decisions["weight"][slots] = weights[known]
        self.decisions["generation"][slots] = live["generation"][at[known]]

    def read(self, slots: NDArray[np.intp]) -> NDArray[np.void]:
        """Return consistent copies of the reports in `slots`, [len(slots)].

        Raises:
            DatapathError: the kernel was writing one of them at every attempt to read it.
        """
        rows: NDArray[np.void] = np.empty(len(slots), layout.REPORT)
        torn = np.arange(len(slots))
        for _ in range(READS):
            before = self.reports["seq"][slots[torn]]
            rows[torn] = self.reports[slots[torn]]
            after = self.reports["seq"][slots[torn]]
            torn = torn[(before != after) | (before % 2 == 1)]
            if not len(torn):
                return rows
        raise DatapathError(
            f"The report of connection {slots[torn[0]]} changed each of the {READS} times it was read: the machine is "
            "too loaded for this agent."
        )

    def flows(self) -> NDArray[np.void]:
        """Return consistent copies of the reports of live connections, and once of each that has ended.

        The slot of a connection that has ended becomes free.
        """
        self._check_open()
        slots = np.flatnonzero(self.reports["state"] != layout.FREE)
        rows = self.read(slots)
        self.give_back(slots[rows["state"] == layout.FINISHED])
        self.slots = slots
        live = np.flatnonzero(rows["state"] == layout.LIVE)
        live = live[np.argsort(rows["flow"][live], kind="stable")]
        self._live, self._live_slots = rows[live], slots[live]
        return rows

    def give_back(self, slots: Sequence[int] | NDArray[np.intp]) -> None:
        """Free slots whose last report has been read."""
        self.reports["state"][slots] = layout.FREE
        for slot in slots:
            self.free_slots.update(None, struct.pack("=I", slot))

    def used(self) -> int:
        """Number of slots, counted from the first, that have ever had a connection: free slots are reused last."""
        return min(int(self.agent["started"][0]), layout.FLOWS_MAX)

    def counters(self) -> dict[str, int]:
        """Return the kernel's counters since the start, by the names in `layout.COUNTERS`."""
        return {name: int(self.agent[name][0]) for name in layout.COUNTERS}

    def params(self) -> tuple[int, ...]:
        """Return the parameters of the loaded program, in the order of the header's table."""
        raw = np.frombuffer(self._loaded().map(".rodata.params").lookup(struct.pack("=I", 0)), layout.PARAMS)
        return tuple(raw["values"][0, : len(extension().params(self.controller))].tolist())

    def programs(self) -> dict[str, Program]:
        """Return the loaded programs by name, to measure their cost."""
        return {program.name: program for program in self._loaded().programs()}

    @property
    def links(self) -> list[int]:
        """Descriptors to pass to another process so that the registration outlives this one."""
        return self._loaded().links

    def close(self) -> None:
        """Unregister; open connections continue under the controller alone once the last beat is too old."""
        if self._object is not None:
            self._object.close()
            self._object = None
        adopted, self._adopted = self._adopted, {}
        for entry in adopted.values():
            os.close(entry.fd)

    def __enter__(self) -> "Shim":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _check_open(self) -> None:
        if self._object is None and not self._adopted:
            raise DatapathError(f"This shim ({self.name}) is closed: make another.")

    def _loaded(self) -> Object:
        self._check_open()
        if self._object is None:
            raise DatapathError(f"This shim ({self.name}) was adopted: its programs are another process's.")
        return self._object


def _whole(number: object) -> int:
    """Return a whole number as a Python int, and -1 for anything else."""
    return int(number) if isinstance(number, int | np.integer) else -1


def _check_timeout(timeout_s: float) -> None:
    if not 0 < timeout_s < 1e9:
        raise ConfigError(f"Shim.timeout_s must be a positive number of seconds, got {timeout_s!r}.")


def _controller_of(maps: Mapping[str, KernelMap]) -> str:
    """Return the controller of the program that these maps belong to (`struct ncc_params`), "" if it is not ours."""
    for name, entry in maps.items():
        if ".rodata" in name and entry.value_bytes == layout.PARAMS.itemsize:
            (row,) = np.frombuffer(entry.lookup(struct.pack("=I", 0)), layout.PARAMS)
            return str(row["controller"].decode())
    return ""
