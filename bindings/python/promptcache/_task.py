"""A step that a thread of the library does, awaited by asyncio."""
from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Optional, Tuple

from ._core import take_pending, works
from ._errors import error_of
from ._raw import ffi, lib

if TYPE_CHECKING:
    import asyncio  # at run time only where it is used: importing it takes 20 ms

__all__ = ["Step"]

#: Seconds of one wait, behind which Python looks for signals, or an event loop for its end.
WAIT_SECONDS = 0.05


class Step:
    """A step of a batch under way (pc_task). What its callbacks raise waits for `end`."""

    def __init__(self) -> None:
        # The box, and so the task, goes with the last of those that look at it.
        self._box: Any = ffi.gc(ffi.new("pc_task **"), lib.pcpy_task_free)

    def start(self, batch: Any) -> None:
        works.append(self)  # before its first callback
        status = lib.pc_batch_step_async(self._box, batch)
        if status < 0:
            works.remove(self)
            raise error_of(status)

    def _wait(self, seconds: float) -> int:
        box = self._box
        return int(lib.pc_task_wait(box[0], seconds)) if box is not None else 0

    @property
    def here(self) -> bool:
        """Whether this is a callback of it."""
        return bool(self._wait(0) == lib.PC_ERR_STATE)

    @property
    def done(self) -> bool:
        """Whether there is nothing to wait for: it is done, or this is a callback of it."""
        return bool(self._wait(0) != lib.PC_AGAIN)

    def wait(self) -> None:
        """Until it is done; the thread waits. Not in a callback of it."""
        while self._wait(WAIT_SECONDS) == lib.PC_AGAIN:
            pass

    async def ready(self) -> None:
        """Until it is done, or somebody cancels that; the loop goes on."""
        import asyncio
        loop = asyncio.get_running_loop()
        descriptor = ffi.new("int32_t *")
        if lib.pc_task_fd(self._box[0], descriptor) >= 0 and await self._told(loop, descriptor[0]):
            return
        while not self.done:  # there are no descriptors, or the loop takes none
            await loop.run_in_executor(None, self._wait, WAIT_SECONDS)
        await asyncio.sleep(0)

    async def _told(self, loop: asyncio.AbstractEventLoop, descriptor: int) -> bool:
        told = loop.create_future()

        def tell() -> None:
            if not told.done():
                told.set_result(None)
        try:
            loop.add_reader(descriptor, tell)
        except NotImplementedError:
            return False
        try:
            await told
        finally:
            if not loop.is_closed():
                loop.remove_reader(descriptor)
        return True

    def end(self) -> Tuple[int, Optional[BaseException]]:
        """Its status, and what it raises. It is done; frees the task."""
        status = self._wait(0)
        failed = error_of(status) if status < 0 else None
        works.remove(self)
        self._box = None
        return status, take_pending(self) or failed


# In a child no thread goes on with them: an error there is none of theirs.
os.register_at_fork(after_in_child=works.clear)
