"""Loading of compiled modules. The compiler takes up to a minute and cannot be interrupted, but waiting for it can."""

from __future__ import annotations

import threading
from typing import Any

import warp as wp

from gradsim.forks import after_fork

POLL = 0.1  # between two chances for Ctrl-C [s]


class _Loading(threading.Thread):
    """Compiles and loads a module. Python waits for it at its end: the compiler must not outlive what it uses."""

    def __init__(self, module: Any):
        super().__init__(name=f"load {module.name}")
        self.module = module
        self.error: BaseException | None = None

    def run(self) -> None:
        try:
            wp.load_module(self.module, device="cpu")
        except BaseException as error:
            self.error = error


_lock = threading.Lock()
_loaded: set[str] = set()
_pending: dict[str, _Loading] = {}


@after_fork
def _renew_lock() -> None:
    global _lock
    _lock = threading.Lock()
    _pending.clear()  # their threads do not exist here


def load_on_cpu(module: Any) -> None:
    """Compiles a Warp module, if the kernel cache does not have it, and loads it.

    After Ctrl-C the compiler goes on in its thread, and the next call waits for it.
    """
    if module.name in _loaded:
        return
    with _lock:
        loading = _pending.get(module.name)
        if loading is None:
            loading = _pending[module.name] = _Loading(module)
            loading.start()
    while loading.is_alive():
        loading.join(POLL)
    with _lock:
        _pending.pop(module.name, None)
    if loading.error is not None:
        raise loading.error
    _loaded.add(module.name)


def is_compiling() -> bool:
    """Whether a compiler is at work, which nobody may be waiting for any more."""
    return any(loading.is_alive() for loading in list(_pending.values()))
