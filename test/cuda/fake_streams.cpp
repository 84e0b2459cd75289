/* The runtime's functions for streams, events and captured graphs. */
#include "fake_device.h"

namespace fake {

/* ---------------------------------------------------------- streams, events */

static Queue *queue_of_thread()
{
    Device *device = current();
    auto made = device->of_threads.try_emplace(std::this_thread::get_id(),
                                               Queue{device, true, {}, false, {}, {}});
    return &made.first->second;
}

Queue *find_queue(cudaStream_t stream)
{
    Queue *queue = reinterpret_cast<Queue *>(stream);
    if (!stream || stream == cudaStreamLegacy)
        return &current()->legacy;
    if (stream == cudaStreamPerThread)
        return queue_of_thread();
    for (const auto &device : machine->devices)
        if (device->queues.count(queue))
            return queue;
    return nullptr;
}

static Event *find_event(cudaEvent_t handle)
{
    Event *event = reinterpret_cast<Event *>(handle);
    for (const auto &device : machine->devices)
        if (device->events.count(event))
            return event;
    return nullptr;
}

/* A capture in a stream that the legacy default stream waits for: it would become part of it. */
static Capture *in_the_way(const Queue *queue)
{
    Device *device = queue->device;
    if (queue == &device->legacy)
        for (const Queue *other : device->all_queues())
            if (other->blocking && other->capture)
                return other->capture.get();
    return nullptr;
}

static cudaError_t spoil(Capture *capture, cudaError_t error)
{
    capture->valid = false;
    return error;
}

/* May the stream get more work? */
static cudaError_t check_order(const Queue *queue)
{
    if (Capture *capture = in_the_way(queue))
        return spoil(capture, cudaErrorStreamCaptureImplicit);
    return queue->capture && !queue->capture->valid ? cudaErrorStreamCaptureInvalidated
                                                    : cudaSuccess;
}

cudaError_t submit(Queue *queue, Operation operation)
{
    if (cudaError_t error = check_order(queue))
        return error;
    if (queue->capture) {
        queue->capture->nodes++;
        if (queue != queue->capture->origin)
            queue->capture->apart.insert(queue);
        return cudaSuccess;
    }
    machine->add(queue, std::move(operation));
    return cudaSuccess;
}

/* May the calling thread wait for the stream? */
static cudaError_t check_wait(const Queue *queue)
{
    if (cudaError_t error = check_order(queue))
        return error;
    return queue->capture ? spoil(queue->capture.get(), cudaErrorStreamCaptureUnsupported)
                          : cudaSuccess;
}

static cudaError_t record(Event *event, Queue *queue)
{
    if (event->device != queue->device)
        return cudaErrorInvalidResourceHandle;
    if (cudaError_t error = check_order(queue))
        return error;
    event->capture = queue->capture;
    event->captured_in = queue;
    if (queue->capture)
        return cudaSuccess;
    Operation operation;
    event->mark = operation.done;
    machine->add(queue, std::move(operation));
    return cudaSuccess;
}

/* The stream takes part in the event's capture from here on. */
static cudaError_t await_captured(Queue *queue, Event *event)
{
    Capture *capture = event->capture.get();
    if (queue->capture && queue->capture != event->capture) {
        queue->capture->valid = false;
        return spoil(capture, cudaErrorStreamCaptureMerge);
    }
    if (queue == &queue->device->legacy)
        return spoil(capture, cudaErrorStreamCaptureImplicit);
    if (!queue->capture) {
        queue->capture = event->capture;
        capture->apart.insert(queue);
    }
    capture->apart.erase(event->captured_in);
    return cudaSuccess;
}

static cudaError_t await(Queue *queue, Event *event)
{
    if (cudaError_t error = check_order(queue))
        return error;
    if (event->capture)
        return await_captured(queue, event);
    if (!event->mark)
        return cudaSuccess;
    if (queue->capture)
        return spoil(queue->capture.get(), cudaErrorStreamCaptureIsolation);
    Operation operation;
    operation.after.push_back(event->mark);
    machine->add(queue, std::move(operation));
    return cudaSuccess;
}

/* What a capture holds cannot be asked whether it is done. */
static cudaError_t check_asked(const Event *event)
{
    if (!event)
        return cudaErrorInvalidResourceHandle;
    return event->capture ? spoil(event->capture.get(), cudaErrorCapturedEvent) : cudaSuccess;
}

static cudaError_t elapsed(float *milliseconds, const Event *from, const Event *to)
{
    if (!from || !to || ((from->flags | to->flags) & cudaEventDisableTiming) || !from->mark
        || !to->mark)
        return cudaErrorInvalidResourceHandle;
    if (!from->mark->reached || !to->mark->reached)
        return cudaErrorNotReady;
    *milliseconds = std::chrono::duration<float, std::milli>(to->mark->at - from->mark->at).count();
    return cudaSuccess;
}

/* ------------------------------------------------------------------ captures */

static cudaError_t begin_capture(Queue *queue, cudaStreamCaptureMode mode)
{
    if (!queue)
        return cudaErrorInvalidResourceHandle;
    if (queue == &queue->device->legacy)
        return cudaErrorStreamCaptureUnsupported;
    if (queue->capture)
        return cudaErrorIllegalState;
    auto capture = std::make_shared<Capture>();
    capture->mode = mode;
    capture->by = std::this_thread::get_id();
    capture->origin = queue;
    queue->capture = capture;
    machine->captures.insert(capture);
    return cudaSuccess;
}

/* Nothing takes part in it any more; events that it has recorded still say so. */
static void forget_capture(const std::shared_ptr<Capture> &capture)
{
    for (const auto &device : machine->devices)
        for (Queue *queue : device->all_queues())
            if (queue->capture == capture)
                queue->capture = nullptr;
    machine->captures.erase(capture);
}

static cudaError_t end_capture(Queue *queue, cudaGraph_t *out)
{
    *out = nullptr;
    if (!queue)
        return cudaErrorInvalidResourceHandle;
    std::shared_ptr<Capture> capture = queue->capture;
    if (!capture)
        return cudaErrorIllegalState;
    if (capture->origin != queue)
        return spoil(capture.get(), cudaErrorStreamCaptureUnmatched);
    if (capture->mode != cudaStreamCaptureModeRelaxed && capture->by != std::this_thread::get_id())
        return cudaErrorStreamCaptureWrongThread;
    forget_capture(capture);
    if (!capture->valid)
        return cudaErrorStreamCaptureInvalidated;
    if (!capture->apart.empty())
        return cudaErrorStreamCaptureUnjoined;
    Graph *graph = new Graph{capture->nodes};
    machine->graphs.insert(graph);
    *out = reinterpret_cast<cudaGraph_t>(graph);
    return cudaSuccess;
}

} // namespace fake

using namespace fake;

/* ------------------------------------------------------------------- streams */

cudaError_t cudaStreamCreateWithFlags(cudaStream_t *out, unsigned flags)
{
    return call("cudaStreamCreateWithFlags", ON_DEVICE, [=](Guard &) {
        if (flags & ~unsigned(cudaStreamNonBlocking))
            return cudaErrorInvalidValue;
        Queue *queue = new Queue{current(), !flags, {}, false, {}, {}};
        current()->queues.insert(queue);
        *out = reinterpret_cast<cudaStream_t>(queue);
        return cudaSuccess;
    });
}

/* The real one lets the work end by itself. Here it is done at once, so that the queue can go. */
cudaError_t cudaStreamDestroy(cudaStream_t stream)
{
    return call("cudaStreamDestroy", ON_DEVICE | GIVES, [=](Guard &guard) {
        Queue *queue = reinterpret_cast<Queue *>(stream);
        if (queue != find_queue(stream) || stream == nullptr)
            return cudaErrorInvalidResourceHandle;
        if (queue->capture)
            queue->capture->valid = false;
        machine->drain(guard, queue);
        queue->device->queues.erase(queue);
        delete queue;
        return cudaSuccess;
    });
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream)
{
    return call("cudaStreamSynchronize", ON_DEVICE | UNSAFE, [=](Guard &guard) {
        Queue *queue = find_queue(stream);
        if (!queue)
            return cudaErrorInvalidResourceHandle;
        if (cudaError_t error = check_wait(queue))
            return error;
        auto last = queue->last;
        if (queue == &queue->device->legacy) /* all that it waits for, too */
            machine->drain(guard, queue->device);
        else
            changed.wait(guard, [&] { return !last || last->reached; });
        return queue->device->lost;
    });
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t handle, unsigned)
{
    return call("cudaStreamWaitEvent", ON_DEVICE, [=](Guard &) {
        Queue *queue = find_queue(stream);
        Event *event = find_event(handle);
        return queue && event ? await(queue, event) : cudaErrorInvalidResourceHandle;
    });
}

cudaError_t cudaStreamGetDevice(cudaStream_t stream, int *device)
{
    return call("cudaStreamGetDevice", ON_DEVICE, [=](Guard &) {
        const Queue *queue = find_queue(stream);
        if (!queue)
            return cudaErrorInvalidResourceHandle;
        *device = queue->device->number;
        return cudaSuccess;
    });
}

/* -------------------------------------------------------------------- events */

cudaError_t cudaEventCreateWithFlags(cudaEvent_t *out, unsigned flags)
{
    return call("cudaEventCreateWithFlags", ON_DEVICE, [=](Guard &) {
        Event *event = new Event{current(), flags, {}, {}, nullptr};
        current()->events.insert(event);
        *out = reinterpret_cast<cudaEvent_t>(event);
        return cudaSuccess;
    });
}

cudaError_t cudaEventDestroy(cudaEvent_t handle)
{
    return call("cudaEventDestroy", ON_DEVICE | GIVES, [=](Guard &) {
        Event *event = find_event(handle);
        if (!event)
            return cudaErrorInvalidResourceHandle;
        event->device->events.erase(event);
        delete event;
        return cudaSuccess;
    });
}

cudaError_t cudaEventRecord(cudaEvent_t handle, cudaStream_t stream)
{
    return call("cudaEventRecord", ON_DEVICE, [=](Guard &) {
        Queue *queue = find_queue(stream);
        Event *event = find_event(handle);
        return queue && event ? record(event, queue) : cudaErrorInvalidResourceHandle;
    });
}

cudaError_t cudaEventSynchronize(cudaEvent_t handle)
{
    return call("cudaEventSynchronize", ON_DEVICE | UNSAFE, [=](Guard &guard) {
        Event *event = find_event(handle);
        if (cudaError_t error = check_asked(event))
            return error;
        Device *device = event->device;
        auto mark = event->mark;
        changed.wait(guard, [&] { return !mark || mark->reached || device->lost; });
        return device->lost;
    });
}

cudaError_t cudaEventQuery(cudaEvent_t handle)
{
    return call("cudaEventQuery", ON_DEVICE | UNSAFE, [=](Guard &) {
        Event *event = find_event(handle);
        if (cudaError_t error = check_asked(event))
            return error;
        return !event->mark || event->mark->reached ? cudaSuccess : cudaErrorNotReady;
    });
}

cudaError_t cudaEventElapsedTime(float *milliseconds, cudaEvent_t first, cudaEvent_t last)
{
    return call("cudaEventElapsedTime", ON_DEVICE, [=](Guard &) {
        return elapsed(milliseconds, find_event(first), find_event(last));
    });
}

/* ------------------------------------------------------------------ captures */

/* A thread that goes back to the usual mode cannot fail in that. */
cudaError_t cudaThreadExchangeStreamCaptureMode(cudaStreamCaptureMode *mode)
{
    unsigned kind = *mode == cudaStreamCaptureModeRelaxed ? ENTERS : GIVES;
    return call("cudaThreadExchangeStreamCaptureMode", kind, [=](Guard &) {
        std::swap(*mode, self().mode);
        note_thread();
        return cudaSuccess;
    });
}

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode mode)
{
    return call("cudaStreamBeginCapture", ON_DEVICE,
                [=](Guard &) { return begin_capture(find_queue(stream), mode); });
}

cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t *out)
{
    return call("cudaStreamEndCapture", ON_DEVICE,
                [=](Guard &) { return end_capture(find_queue(stream), out); });
}

cudaError_t cudaStreamIsCapturing(cudaStream_t stream, cudaStreamCaptureStatus *out)
{
    return call("cudaStreamIsCapturing", ON_DEVICE, [=](Guard &) {
        const Queue *queue = find_queue(stream);
        if (!queue)
            return cudaErrorInvalidResourceHandle;
        if (in_the_way(queue))
            return cudaErrorStreamCaptureImplicit;
        *out = !queue->capture         ? cudaStreamCaptureStatusNone
               : queue->capture->valid ? cudaStreamCaptureStatusActive
                                       : cudaStreamCaptureStatusInvalidated;
        return cudaSuccess;
    });
}

cudaError_t cudaGraphGetNodes(cudaGraph_t handle, cudaGraphNode_t *nodes, size_t *count)
{
    return call("cudaGraphGetNodes", ANY_TIME, [=](Guard &) {
        const Graph *graph = reinterpret_cast<const Graph *>(handle);
        if (nodes || !machine->graphs.count(const_cast<Graph *>(graph)))
            return cudaErrorInvalidValue; /* only the count is known */
        *count = graph->nodes;
        return cudaSuccess;
    });
}

cudaError_t cudaGraphDestroy(cudaGraph_t handle)
{
    return call("cudaGraphDestroy", GIVES, [=](Guard &) {
        Graph *graph = reinterpret_cast<Graph *>(handle);
        if (!machine->graphs.erase(graph))
            return cudaErrorInvalidValue;
        delete graph;
        return cudaSuccess;
    });
}
