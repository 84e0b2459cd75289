"""The functions of pc_model_ops: what the library gives in C becomes a call of the engine.

A handle of the library is the number of an object in a table. Its `user` is the Own of a model,
which lives until on_free."""
import itertools
import sys
import threading

import torch

from .. import _core
from .._raw import ffi, lib
from . import errors

DTYPES = {torch.float32: lib.PC_DTYPE_F32, torch.bfloat16: lib.PC_DTYPE_BF16,
          torch.float16: lib.PC_DTYPE_F16}
_alive = {}  # Own by its number, until on_free


class Own:
    """engine, text: what computes, and the tokenizer or None."""

    def __init__(self, engine, text, fingerprint):
        self.engine, self.text, self.fingerprint = engine, text, fingerprint
        self.objects, self.numbers, self.lock = {}, itertools.count(1), threading.Lock()
        self.user = ffi.new_handle(self)
        _alive[id(self)] = self

    def put(self, thing):
        with self.lock:
            number = next(self.numbers)
        self.objects[number] = thing
        return ffi.cast("void *", number)

    def get(self, handle):
        return self.objects[int(ffi.cast("uintptr_t", handle))]

    def drop(self, handle):
        self.objects.pop(int(ffi.cast("uintptr_t", handle)), None)

    def spans(self, first, stride, count):
        for i in range(count):
            span = ffi.cast("pc_span *", ffi.cast("char *", first) + i * stride)
            yield self.get(span.segment), span.start, span.lo, span.hi


def full(error):
    """Whether an error says that memory for states is full."""
    kinds = tuple(k for k in (getattr(torch, "OutOfMemoryError", None),
                              getattr(torch.cuda, "OutOfMemoryError", None)) if k)
    return isinstance(error, (MemoryError,) + kinds) or "can't allocate memory" in str(error)


def status_of(error):
    """The status of an exception, with its text. It is raised again where the library was called,
    unless the status says all, or the library can do something about it."""
    status = (lib.PC_ERR_CANCELLED if isinstance(error, errors.Cancelled) else
              lib.PC_ERR_UNSUPPORTED if isinstance(error, errors.Refused) else
              lib.PC_ERR_LIMIT if full(error) else lib.PC_ERR_INTERNAL)
    if status == lib.PC_ERR_INTERNAL:
        _core.failed(type(error), error, error.__traceback__)
    else:
        said = str(error).partition("\n")[0].replace("\0", " ")
        lib.pc_error_set(said.encode("utf-8", "replace"))
    return status


def operation(name, background=False):
    """Makes a function of Own and the arguments one of pc_model_ops. background: also threads of a
    cache call it, where nobody waits for an exception."""
    def make(function):
        def call(user, *args):
            try:
                function(ffi.from_handle(user), *args)
                return lib.PC_OK
            except BaseException as error:  # nothing may leave a callback
                if not background:
                    return status_of(error)
                _core.unraisable(type(error), error, error.__traceback__)
                return lib.PC_ERR_LIMIT if full(error) else lib.PC_ERR_INTERNAL
        ffi.def_extern(name="py_model_ops_" + name, error=lib.PC_ERR_INTERNAL)(call)
        return function
    return make


def poller(args):
    """Raises Cancelled if the library wants the call to end."""
    if not args.cancelled:
        return lambda: None

    def poll():
        if args.cancelled(args.cancel_user):
            raise errors.Cancelled("cancelled")
    return poll


def memory(pointer, tensor):
    """Copies a tensor to where C wants it."""
    tensor = tensor.contiguous().cpu()
    ffi.memmove(ffi.cast("char *", pointer),
                ffi.buffer(ffi.cast("char *", tensor.data_ptr()),
                           tensor.numel() * tensor.element_size()),
                tensor.numel() * tensor.element_size())


def fill(out, capacity, size, data):
    """Bytes or ids by the rule of calls that fill an array."""
    size[0] = len(data)
    if capacity and len(data) > capacity:
        return lib.PC_ERR_LIMIT
    if capacity:
        out[0:len(data)] = data
    return lib.PC_OK


# ---- The model and its text


@operation("describe")
def describe(own, info):
    facts, passes = own.engine.facts, own.engine.passes
    name = str(getattr(passes.config, "model_type", "")).encode()[:31]
    info.architecture = name
    ffi.memmove(info.fingerprint, own.fingerprint, 32)
    numbers = {"layers": facts.layers, "heads": facts.heads, "kv_heads": facts.kv_heads,
               "head_dim": facts.head_dim, "vocab": facts.vocab,
               "hidden": getattr(passes.config, "hidden_size", 0) or 0,
               "context_length": facts.context,
               "position_scheme": getattr(lib, "PC_POSITION_" + facts.scheme),
               "compute": DTYPES[passes.dtype], "relocatable": facts.relocatable,
               "weight_bytes": facts.weight_bytes, "kv_bytes_per_token": facts.token_bytes}
    if own.text:
        numbers.update({"token_" + n: own.text.token(n) for n in ("bos", "eos", "unk", "pad")})
    for field, number in numbers.items():
        setattr(info, field, int(number))


def text_operation(name, work):
    """tokenize and detokenize, whose status may be PC_ERR_LIMIT by rule."""
    @ffi.def_extern(name="py_model_ops_" + name, error=lib.PC_ERR_INTERNAL)
    def call(user, data, count, flags, out, capacity, size):
        try:
            return fill(out, capacity, size, work(ffi.from_handle(user).text, data, count, flags))
        except BaseException as error:  # nothing may leave a callback
            return status_of(error)


text_operation("tokenize", lambda text, data, size, flags: text.tokenize(
    bytes(ffi.buffer(data, size)), bool(flags & lib.PC_TOKENIZE_SPECIAL),
    bool(flags & lib.PC_TOKENIZE_BOS)))
text_operation("detokenize", lambda text, ids, count, flags: text.detokenize(
    ffi.unpack(ids, count) if count else [], bool(flags & lib.PC_TOKENIZE_SPECIAL)))


# ---- Segments


def no_adapter(adapter):
    if adapter:
        raise errors.Refused("it computes without adapters that a request names: "
                             "put them into the model, and make a Host of that")


@operation("encode")
def encode(own, args, segments):
    no_adapter(args.adapter)
    ranges = [ffi.cast("pc_token_range *", ffi.cast("char *", args.ranges) + i * args.range_stride)
              for i in range(args.range_count)]
    made = own.engine.encode(
        ffi.unpack(args.tokens, args.count), ffi.unpack(args.positions, args.count),
        list(own.spans(args.visible, args.visible_stride, args.visible_count)),
        [(r.first, r.count) for r in ranges], poller(args))
    for i, segment in enumerate(made):
        segments[i] = own.put(segment)


@ffi.def_extern(name="py_model_ops_release")
def release(user, segment):
    ffi.from_handle(user).drop(segment)


@operation("size", background=True)
def size_of(own, segment, size):
    size[0] = own.get(segment).bytes()


def check_form(states, dtype):
    if states.dtype != DTYPES[dtype]:
        raise ValueError(f"states of number format {states.dtype}")


@operation("export_layer", background=True)
def export_layer(own, handle, states):
    segment = own.get(handle)
    check_form(states, own.engine.passes.dtype)
    if segment.relative.tolist() != list(range(states.count)):
        raise ValueError("a segment with gaps between its positions is not written")
    for side, out, width in ((segment.keys, states.k, states.k_dim),
                             (segment.values, states.v, states.v_dim)):
        tensor = side[states.layer].transpose(0, 1)
        memory(out, torch.nn.functional.pad(tensor, (0, width - tensor.shape[-1])))


@operation("import_layer", background=True)
def import_layer(own, states, handle):
    check_form(states, own.engine.passes.dtype)
    if not handle[0]:
        handle[0] = own.put(own.engine.empty(states.count, states.origin))
    segment = own.get(handle[0])
    facts, dtype = own.engine.facts, own.engine.passes.dtype
    for side, source, width, dims in ((segment.keys, states.k, states.k_dim, facts.key_dims),
                                      (segment.values, states.v, states.v_dim, facts.value_dims)):
        count = states.count * states.kv_heads * width
        tensor = torch.frombuffer(ffi.buffer(source, count * dtype.itemsize), dtype=dtype).reshape(
            states.count, states.kv_heads, width)[:, :, :dims[states.layer]]
        side[states.layer] = tensor.transpose(0, 1).clone(
            memory_format=torch.contiguous_format).to(facts.devices[states.layer])


# ---- Sequences


@operation("sequence_new")
def sequence_new(own, args, out):
    no_adapter(args.adapter)
    out[0] = own.put(own.engine.new_sequence())


@operation("attach")
def attach(own, sequence, span):
    own.engine.attach(own.get(sequence), own.get(span.segment), span.start, span.lo, span.hi)


@operation("fork")
def fork(own, sequence, copy):
    copy[0] = own.put(own.get(sequence).fork())


@operation("truncate")
def truncate(own, sequence, count):
    own.get(sequence).truncate(count)


@ffi.def_extern(name="py_model_ops_drop")
def drop(user, sequence):
    ffi.from_handle(user).drop(sequence)


def run_step(own, args, out, width, hidden):
    first = ffi.cast("char *", args.rows)
    rows = [ffi.cast("pc_step_row *", first + i * args.row_stride) for i in range(args.count)]
    results = own.engine.step(
        [(own.get(r.sequence), r.position, r.token, bool(r.want_logits)) for r in rows],
        args.visibility == lib.PC_VISIBLE_ALL, hidden, poller(args))
    if results:
        memory(out, torch.cat([r.reshape(-1, width) for r in results]).float())


@operation("step")
def step(own, args):
    run_step(own, args, args.logits, own.engine.facts.vocab, False)


@operation("step_hidden")
def step_hidden(own, args, hidden):
    run_step(own, args, hidden, own.engine.passes.config.hidden_size, True)


@operation("deviation")
def deviation(own, args, score):
    no_adapter(args.adapter)
    memory(score, own.engine.deviation(
        ffi.unpack(args.tokens, args.count), ffi.unpack(args.positions, args.count),
        list(own.spans(args.spans, args.span_stride, args.span_count))))


# ---- The model as an object of the library


@ffi.def_extern(name="py_model_from_ops_on_free")
def on_free(user):
    if sys is not None and _alive is not None:  # else the interpreter ends
        _alive.pop(id(ffi.from_handle(user)), None)


SEQUENCES = ("describe", "encode", "release", "size", "sequence_new", "attach", "fork", "step",
             "drop", "deviation", "truncate", "step_hidden")


def model_of(own, context, options):
    """A pc_model * of this own model; the caller frees it."""
    ops = ffi.new("pc_model_ops *")
    lib.pc_model_ops_init(ops, ffi.sizeof("pc_model_ops"))
    ops.flags = lib.PC_OVERLAP_TEXT | lib.PC_OVERLAP_STATES
    names = SEQUENCES + (("tokenize", "detokenize") if own.text else ())
    if own.engine.facts.kv_heads:
        names += ("export_layer", "import_layer")
    for name in names:
        setattr(ops, name, getattr(lib, "py_model_ops_" + name))
    out = ffi.new("pc_model **")
    status = lib.pc_model_from_ops(out, context, ops, own.user, lib.py_model_from_ops_on_free,
                                   options)
    if status < 0:
        _alive.pop(id(own), None)
    _core.check(status)
    return out[0]
