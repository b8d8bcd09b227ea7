"""Streams and events, and graphs captured from them."""

# ruff: noqa: N802 - the names are those of the functions

from __future__ import annotations

import ctypes

from tests.fake_hip.state import (
    CAPTURE_UNSUPPORTED,
    INVALID_VALUE,
    Books,
    Event,
    Finding,
    Graph,
    GraphExec,
    Stream,
    store,
)


class StreamCalls(Books):
    """Functions on streams, events and graphs."""

    def hipStreamCreateWithFlags(self, stream: int, flags: int) -> None:
        store(ctypes.c_void_p, stream, self.new(Stream(self.device)))

    def hipStreamDestroy(self, stream: int) -> None:
        self.drain(self.get(stream, Stream, "hipStreamDestroy"))
        del self.objects[stream]

    def hipStreamSynchronize(self, stream: int) -> int:
        found = self.stream(stream, "hipStreamSynchronize")
        if found.capture is not None:
            raise Finding(CAPTURE_UNSUPPORTED, "hipStreamSynchronize of a stream that is captured")
        return self.drain(found)

    def hipDeviceSynchronize(self) -> int:
        errors = [self.drain(self.default_streams[self.device])]
        for value in list(self.objects.values()):
            if isinstance(value, Stream) and value.device == self.device:
                errors.append(self.drain(value))
        return max(errors)

    def hipEventCreateWithFlags(self, event: int, flags: int) -> None:
        store(ctypes.c_void_p, event, self.new(Event()))

    def hipEventRecord(self, event: int, stream: int) -> None:
        found: Event = self.get(event, Event, "hipEventRecord")
        found.stream = self.stream(stream, "hipEventRecord")
        found.recorded += 1
        number = found.recorded

        def work() -> None:
            found.reached = max(found.reached, number)

        self.enqueue(stream, "hipEventRecord", work)

    def _reach(self, event: Event, number: int) -> int:
        while event.reached < number and event.stream is not None and event.stream.work:
            try:
                event.stream.work.popleft()()
            except Finding as finding:
                self.findings.append(str(finding))
                return finding.error
        return 0

    def hipEventSynchronize(self, event: int) -> int:
        self.not_while_capturing("hipEventSynchronize")
        found: Event = self.get(event, Event, "hipEventSynchronize")
        return self._reach(found, found.recorded)

    def hipStreamWaitEvent(self, stream: int, event: int, flags: int) -> None:
        found: Event = self.get(event, Event, "hipStreamWaitEvent")
        number = found.recorded

        def work() -> None:
            self._reach(found, number)

        self.enqueue(stream, "hipStreamWaitEvent", work)

    def hipEventDestroy(self, event: int) -> None:
        self.get(event, Event, "hipEventDestroy")
        del self.objects[event]

    def hipStreamBeginCapture(self, stream: int, mode: int) -> None:
        if not stream:
            raise Finding(CAPTURE_UNSUPPORTED, "capture of the default stream")
        self.stream(stream, "hipStreamBeginCapture").capture = []

    def hipStreamEndCapture(self, stream: int, graph: int) -> None:
        found = self.stream(stream, "hipStreamEndCapture")
        if found.capture is None:
            raise Finding(INVALID_VALUE, "hipStreamEndCapture of a stream that is not captured")
        store(ctypes.c_void_p, graph, self.new(Graph(found.capture)))
        found.capture = None

    def hipGraphInstantiateWithFlags(self, exec_: int, graph: int, flags: int) -> None:
        found = self.get(graph, Graph, "hipGraphInstantiateWithFlags")
        store(ctypes.c_void_p, exec_, self.new(GraphExec(list(found.work))))

    def hipGraphLaunch(self, exec_: int, stream: int) -> None:
        found = self.get(exec_, GraphExec, "hipGraphLaunch")

        def work() -> None:
            for each in found.work:
                each()

        self.enqueue(stream, "hipGraphLaunch", work)

    def hipGraphDestroy(self, graph: int) -> None:
        self.get(graph, Graph, "hipGraphDestroy")
        del self.objects[graph]

    def hipGraphExecDestroy(self, exec_: int) -> None:
        self.get(exec_, GraphExec, "hipGraphExecDestroy")
        del self.objects[exec_]
