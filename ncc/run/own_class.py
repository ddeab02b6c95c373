# SPDX-License-Identifier: BSD-3-Clause
"""Users' classes as controllers: ``module:Class`` in the current folder or in an installed package."""

import hashlib
import importlib
import inspect
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar, cast

import numpy as np

from ncc.core.errors import ConfigError, NccError, UnknownNameError
from ncc.core.flows import FloatArray
from ncc.core.measurement import Measurement
from ncc.core.receivers import Decision, Grants
from ncc.core.scenario import Scenario
from ncc.core.value import from_dict
from ncc.harness.atomic import file_digest
from ncc.harness.controller import ClassLimit, Controller
from ncc.harness.datapath import HostStack
from ncc.harness.limiter import RateLimiter

T = TypeVar("T")
CONTRACT = "it must offer reset(scenario, seed) and decide(measurement), as ncc.harness.limiter.RateLimiter says"


def class_controller(target: str) -> Controller:
    """Make the controller of a class, from the attributes `summary` and `stack` of the class if it has them.

    By default, the summary is the first line of the class's docstring, and the stack is DCTCP.

    Raises:
        ConfigError: the `stack` is invalid, or for a reason that `load_class` lists.
    """
    user_class = load_class(target)
    stack = getattr(user_class, "stack", "dctcp")
    if isinstance(stack, str):
        stack = from_dict(HostStack, {"transport": stack}, f"{target}.stack")
    if not isinstance(stack, HostStack):
        raise ConfigError(f"{target}.stack must be the name of a transport or a HostStack, got {stack!r}")
    summary = str(getattr(user_class, "summary", None) or (inspect.getdoc(user_class) or "").partition("\n")[0])
    return Controller(name=user_class.__name__, summary=summary[:200], stack=stack, limit=ClassLimit(target=target))


def load_class(target: str) -> type[RateLimiter]:
    """Import the class at ``module:Class``.

    Raises:
        ConfigError: there is no such module or class, the module fails, or the class does not implement `CONTRACT`.
    """
    name, _, within = target.partition(":")
    module = _module(name, target)
    if not hasattr(module, within):
        known = [key for key, value in vars(module).items() if inspect.isclass(value) and value.__module__ == name]
        raise UnknownNameError(f"class of module {name}", within, known)
    user_class = getattr(module, within)
    verbs = {"reset": 2, "decide": 1}
    if not inspect.isclass(user_class) or not all(_takes(getattr(user_class, v, None), n) for v, n in verbs.items()):
        raise ConfigError(f"{target} is no class that decides rate limits: {CONTRACT}")
    try:
        inspect.signature(user_class).bind()
    except TypeError:
        raise ConfigError(f"{target} must be made without arguments: give those of its __init__ defaults") from None
    return cast(type[RateLimiter], user_class)


class OwnLimiter:
    """A `RateLimiter` that calls an object of a user's class.

    Raises:
        ConfigError: the class raised an error or `SystemExit`; the message names class, method, file and line.
    """

    def __init__(self, target: str) -> None:
        self._target, self._class = target, load_class(target)
        self._instance = self._called("__init__", self._class)

    def reset(self, scenario: Scenario, seed: int) -> None:
        self._called("reset", lambda: self._instance.reset(scenario, seed))

    def decide(self, measurement: Measurement) -> FloatArray | Decision:
        return self._called("decide", lambda: _of_arrays(self._instance.decide(measurement)))

    def _called(self, verb: str, call: Callable[[], T]) -> T:
        try:
            return call()
        except NccError:
            raise
        except (Exception, SystemExit) as error:
            code = getattr(inspect.unwrap(getattr(self._class, verb)), "__code__", None)
            file, line = (code.co_filename, code.co_firstlineno) if code else (inspect.getfile(self._class), 1)
            where = _where(error, file, f" ({Path(file).name}, line {line}, in {verb})")
            raise ConfigError(f"{self._target} failed in {verb}: {_line(error)}{where}") from error


def _of_arrays(decision: Any) -> FloatArray | Decision:
    """Return what a class decided with arrays in place of lists."""
    if not isinstance(decision, Decision):
        return np.asarray(decision, np.float64)
    given, tag_params = decision.grants, decision.tag_params
    if given is not None and not isinstance(given, Grants):
        raise TypeError(f"Decision.grants must be Grants or None, got {type(given).__name__}")
    grants = given and Grants(
        src=np.asarray(given.src, np.int64),
        dst=np.asarray(given.dst, np.int64),
        start_s=np.asarray(given.start_s, np.float64),
        rate_bps=np.asarray(given.rate_bps, np.float64),
        window_pkts=np.asarray(given.window_pkts, np.int64),
    )
    return Decision(np.asarray(decision.limits_bps, np.float64), grants, tag_params)


def source_digest(target: str) -> str:
    """SHA-256 of the class's module and of the files that the class names in `files`.

    If one of them changes, results from before are not used again.

    Raises:
        ConfigError: one of `files` does not exist, or for a reason that `load_class` lists.
    """
    user_class = load_class(target)
    source = sys.modules[user_class.__module__].__file__
    files = [*([source] if source else []), *getattr(user_class, "files", ())]
    if missing := [str(file) for file in files if not Path(file).is_file()]:
        raise ConfigError(f"{target}.files names {missing[0]}, which is no file")
    return hashlib.sha256("".join(file_digest(Path(file)) for file in files).encode()).hexdigest()


def _module(name: str, target: str) -> Any:
    if (here := str(Path.cwd())) not in sys.path:
        sys.path.insert(0, here)
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{name}.".startswith(f"{error.name}."):
            raise ConfigError(f"controller {target!r}: importing {name} failed: {error}") from None
        raise ConfigError(
            f"controller {target!r}: there is no module {error.name!r}, neither in the current folder nor installed"
        ) from None
    except (Exception, SystemExit) as error:  # noqa: BLE001 - a user's module may raise anything
        where = _where(error, f"/{name.replace('.', '/')}.py")
        raise ConfigError(f"controller {target!r}: importing {name} failed: {_line(error)}{where}") from None


def _line(error: BaseException) -> str:
    return f"{type(error).__name__}: {' '.join(str(error).split())}"


def _where(error: BaseException, file: str, otherwise: str = "") -> str:
    """Describe the last line of `file` that ran before the error; return `otherwise` if none did."""
    ran = [at for at in traceback.extract_tb(error.__traceback__) if at.filename.endswith(file)]
    return f" ({Path(file).name}, line {ran[-1].lineno}, in {ran[-1].name})" if ran else otherwise


def _takes(verb: Any, arguments: int) -> bool:
    """True if the method can be called with that number of arguments after `self`."""
    if not callable(verb):
        return False
    try:
        inspect.signature(verb).bind(*range(arguments + 1))
    except TypeError:
        return False
    return True
