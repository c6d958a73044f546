"""A pretended CUDA device, so that a machine without a GPU sees where tensors of two devices meet.

Everything is computed on the CPU. What `to("cuda")` or `device="cuda"` makes is remembered by its memory, says that it
is on "cuda:0", and raises CUDA's errors where it meets a tensor that was left on the CPU, a generator of the CPU, or
NumPy. Like Apple's it has no float64. It knows nothing of how a real GPU rounds, nor of the operations it lacks.
"""

import weakref

import torch
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

CUDA, CPU = torch.device("cuda", 0), torch.device("cpu")
COPIES = {"aten::copy_", "aten::_to_copy"}
INDEXING = {"aten::index", "aten::index_put", "aten::index_put_", "aten::_index_put_impl_"}


unwrapped = getattr(torch.func, "debug_unwrap", lambda tensor: tensor)  # of `vmap`; torch 2.6 has no such function


def memory_of(tensor):
    return unwrapped(tensor).untyped_storage()


def tensors_in(values):
    if isinstance(values, torch.Tensor):
        return [values]
    values = values.values() if isinstance(values, dict) else values if isinstance(values, list | tuple) else ()
    return [tensor for value in values for tensor in tensors_in(value)]


class Memory:
    """Which memory lies on the pretended device."""

    def __init__(self):
        self._there = weakref.WeakSet()
        self.call_is_there = [False]  # whether the function that runs now works on the device

    def holds(self, tensor):
        return memory_of(tensor) in self._there

    def share(self, tensors):
        return set(map(memory_of, tensors))

    def put(self, tensor, there):
        if there and tensor.dtype == torch.float64:
            raise TypeError("Cannot convert a tensor to float64 dtype, which the device has not")
        (self._there.add if there else self._there.discard)(memory_of(tensor))

    def move(self, tensor, there):
        if self.holds(tensor) == there:
            return tensor
        moved = tensor.clone()
        self.put(moved, there)
        return moved


class _Operations(TorchDispatchMode):
    """Look at every operation: refuse to mix, and remember where the results lie."""

    def __init__(self, memory):
        super().__init__()
        self.memory = memory

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        tensors = tensors_in((args, kwargs))
        there = any(map(self.memory.holds, tensors))
        if there:
            self._refuse_to_mix(func._schema.name, tensors, kwargs)
        before = self.memory.share(tensors)
        results = func(*args, **kwargs)
        there = there or (not tensors and self.memory.call_is_there[-1])
        for result in tensors_in(results):
            if not self.memory.share([result]) <= before:
                self.memory.put(result, there)
        return results

    def _refuse_to_mix(self, name, tensors, kwargs):
        if kwargs.get("generator") is not None:
            raise RuntimeError("Expected a 'cuda' device type for generator but found 'cpu'")
        if name in INDEXING and self.memory.holds(tensors[0]):
            tensors = tensors[:1] if name == "aten::index" else [tensors[0], tensors[-1]]  # indices may lie on the CPU
        if name not in COPIES and any(tensor.dim() and not self.memory.holds(tensor) for tensor in tensors):
            raise RuntimeError(f"Expected all tensors to be on the same device, but found cuda:0 and cpu ({name})")


class _Functions(TorchFunctionMode):
    """Look at every call: answer for the device, and carry out the moves."""

    def __init__(self, memory):
        super().__init__()
        self.memory = memory

    def __torch_function__(self, func, types, args=(), kwargs=None):
        kwargs, name = dict(kwargs or {}), getattr(func, "__name__", "")
        if name == "__get__" and getattr(func.__self__, "__name__", "") == "device":
            return CUDA if self.memory.holds(args[0]) else CPU
        if name == "__get__" and getattr(func.__self__, "__name__", "") == "is_cpu":
            return not self.memory.holds(args[0])
        if name in ("numpy", "__array__") and self.memory.holds(args[0]):
            raise TypeError("can't convert cuda:0 device type tensor to numpy")
        if name == "cpu":
            return self.memory.move(args[0], there=False)
        if name == "to":
            return self._to(func, *args, **kwargs)
        if kwargs.get("device") is not None:
            return self._made_on(func, args, kwargs)
        self.memory.call_is_there.append(any(map(self.memory.holds, tensors_in((args, kwargs)))))
        try:
            return func(*args, **kwargs)
        finally:
            self.memory.call_is_there.pop()

    def _made_on(self, func, args, kwargs):
        there = torch.device(kwargs.pop("device")).type == "cuda"
        if there and kwargs.get("generator") is not None:
            raise RuntimeError("Expected a 'cuda' device type for generator but found 'cpu'")
        made = func(*args, device="cpu", **kwargs)
        self.memory.put(made, there)
        return made

    def _to(self, func, tensor, *args, device=None, **kwargs):
        if args and (args[0] is None or isinstance(args[0], str | torch.device)):
            device, *args = args
        if args and isinstance(args[0], torch.Tensor):
            device, args = (CUDA if self.memory.holds(args[0]) else CPU), (args[0].dtype, *args[1:])
        args = [argument for argument in args if argument is not None and argument is not False]
        converted = func(tensor, *args, **kwargs) if args or kwargs else tensor
        return converted if device is None else self.memory.move(converted, torch.device(device).type == "cuda")


class PretendedDevice:
    """Within this context there seems to be a device "cuda"."""

    def __init__(self):
        memory = Memory()
        self._modes = _Operations(memory), _Functions(memory)

    def __enter__(self):
        for mode in self._modes:
            mode.__enter__()

    def __exit__(self, *reason):
        for mode in reversed(self._modes):
            mode.__exit__(*reason)
