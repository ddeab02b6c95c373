# SPDX-License-Identifier: BSD-3-Clause
"""`Shim`: a controller of `baselines/` in the kernel, with reports of its connections and decisions for them."""

import struct
import time
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ncc.baselines import registry
from ncc.baselines.registry import with_defaults
from ncc.core.errors import DatapathError
from ncc.core.flows import IntArray
from ncc.envs.linux import layout, objects
from ncc.envs.linux.extension import bpf, memory, open_object


class Shim:
    """Controller `controller`, registered with the kernel as `name` until `close`, or until this process ends.

    Every socket of the machine, in any network namespace, that selects `name` by TCP_CONGESTION uses it. Decisions
    hold only while `beat` is called more often than every `timeout_s`. Otherwise the controller decides alone from the
    next ACK on, and each connection that falls back is counted. A connection can always send a packet every 100 ms,
    whatever its decision.

    Args:
        controller: name of a header of `baselines/`.
        params: parameters that differ from their defaults.
        timeout_s: seconds without `beat` after which decisions are ignored, > 0.
        name: registered name; None: `ncc.envs.linux.objects.congestion_name(controller)`.
        proportional: True lets windows shrink packet by packet (PRR, baselines/prr.h), as the kernel's own controllers
            do; False shrinks them at once.
        user_slots: slots that one user of the machine may hold; the user's further connections are not reported.

    Attributes:
        name: name by which sockets select it (TCP_CONGESTION).
        reports: rows [FLOWS_MAX] of `layout.REPORT`, which the kernel writes at any time.
        decisions: rows [FLOWS_MAX] of `layout.DECISION`, by the same slots; `generation` is that of the report.
        hosts: rows [HOSTS_MAX] of `layout.HOST`.
        agent: row [1] of `layout.AGENT`.

    Raises:
        ConfigError: a parameter is out of range, or the name is not allowed.
        UnknownNameError: no such controller or parameter.
        DatapathError: the controller was not built, or the kernel refuses it.
    """

    def __init__(
        self,
        controller: str,
        params: Sequence[tuple[str, int]] = (),
        *,
        timeout_s: float,
        name: str | None = None,
        proportional: bool = False,
        user_slots: int = layout.FLOWS_MAX,
    ) -> None:
        path = objects.controller_object(controller)
        values = list(with_defaults(controller, registry.controller(controller).params, params).values())
        self.name = name or objects.congestion_name(controller)
        data = None if name is None else objects.renamed(path, controller, name)
        row = np.zeros(1, layout.PARAMS)
        row["values"][0, : len(values)] = values
        row["proportional"], row["user_slots"] = proportional, user_slots
        self._object = open_object(path, {".rodata.params": row.tobytes()}, data)
        self.reports: NDArray[np.void] = memory(self._object, "reports", layout.REPORT)
        self.decisions: NDArray[np.void] = memory(self._object, "decisions", layout.DECISION)
        self.hosts: NDArray[np.void] = memory(self._object, "hosts", layout.HOST)
        self.agent: NDArray[np.void] = memory(self._object, "agent", layout.AGENT)
        self.agent["timeout_ns"] = int(timeout_s * 1e9)
        signal_row = np.dtype([("words", "<u8")])
        has_signals = "shim_signal" in self._object.programs
        self._heard = memory(self._object, "signals", signal_row) if has_signals else np.zeros(1, signal_row)
        # Columns that are read every period: looking a field up by its name takes longer than reading it.
        self._beat_ns, self._started = self.agent["beat_ns"], self.agent["started"]
        self._fallbacks, self._windows = self.agent["fallbacks"], self.hosts["window_bytes"]
        self._free(range(layout.FLOWS_MAX))
        try:
            self._object.register("shim")
        except BaseException as error:
            self.close()
            if not isinstance(error, bpf().RegisteredError):
                raise
            raise DatapathError(
                f"The congestion control {self.name} cannot be registered, because the kernel or another process "
                "has it already, in whichever network namespace: end that process first, or take another name "
                "(`ncc host run --name`)."
            ) from None

    def add_host(self, index: int | None, address: str, cookie: int) -> None:
        """Report connections that begin at an address from now on, as those of host `index`.

        A host may have several addresses. Connections of no host are not reported.

        Args:
            index: index of the host; None: report its connections only, without window and patience.
            address: address of the host, of IPv4 or IPv6.
            cookie: cookie of the network namespace (`ncc.envs.linux.machine.namespace_cookie`).
        """
        source = np.array([(cookie, layout.address_bytes(address))], layout.SOURCE).tobytes()
        self._object.update("addresses", source, struct.pack("=I", layout.NO_HOST if index is None else index))

    def beat(self, now_ns: int | None = None) -> None:
        """Renew decisions for another `timeout_s`; `now_ns` is `time.monotonic_ns()`."""
        self._beat_ns[0] = time.monotonic_ns() if now_ns is None else now_ns

    def hold(self, window_bytes: Sequence[int] | IntArray) -> None:
        """Give connections of hosts 0 to n - 1 a window of at least `window_bytes` [n]; 0: the controller's window.

        This window holds from a connection's first packet until the first mark or loss, and again after a pause.
        """
        self._windows[: len(window_bytes)] = window_bytes

    def wait_for(self, receiver: str, *, waits: bool) -> None:
        """Make new flows to a receiver (its address) wait for a grant, or not; for hosts with `named_only`.

        Flows that have begun go on. If none waits any more, those without a grant begin at the next attempt to send.
        """
        self._object.update("receivers", layout.address_bytes(receiver), struct.pack("=I", waits))

    def give_back(self, slots: Sequence[int] | NDArray[np.intp]) -> None:
        """Free slots whose last report has been read."""
        self.reports["state"][slots] = layout.FREE
        self._free(slots)

    def _free(self, slots: Sequence[int] | NDArray[np.intp]) -> None:
        for slot in slots:
            self._object.update("free_slots", None, struct.pack("=I", slot))

    def used(self) -> int:
        """Return the number of slots that have ever had a connection.

        They are the first ones, because slots that become free are used again only after all others.
        """
        return min(int(self._started.item()), layout.FLOWS_MAX)

    @property
    def fallbacks(self) -> int:
        """Number of times that connections stopped obeying because no `beat` came, as in `counters`."""
        return int(self._fallbacks.item())

    def counters(self) -> dict[str, int]:
        """Return the kernel's counters since the start, by the names in `layout.COUNTERS`."""
        return {name: int(self.agent[name][0]) for name in layout.COUNTERS}

    @property
    def signals_received(self) -> int:
        """Number of switches' signals that connections have received; 0 for controllers without signals."""
        return int(self._heard["words"][0])

    def programs(self) -> dict[str, int]:
        """Return the file descriptors of the loaded programs, by name."""
        return dict(self._object.programs)

    def close(self) -> None:
        """Unregister the controller.

        Open connections keep it. They ignore the agent's decisions once `timeout_s` have passed since the last `beat`.
        """
        self._object.close()

    def __enter__(self) -> "Shim":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
