"""The launcher for the hardware (runtime/gpu/cuda.py), as far as can be seen without any: what the driver is asked."""

import ctypes
import gc
import re
import sys
import types
import weakref
from pathlib import Path

import numpy as np
import pytest
from assembler import assembler

import dlvm_py as dlvm
from dlvm_py.backend.gpu.ptx import ptx
from dlvm_py.frozen import replace
from dlvm_py.runtime import native
from dlvm_py.runtime.gpu import cuda
from dlvm_py.runtime.gpu import device as device_module
from dlvm_py.runtime.gpu.arrays import device_array, to_device
from dlvm_py.runtime.gpu.device import _SIGNATURES, FUNCTIONS, Hardware, live
from dlvm_py.runtime.native import standing


class Library:
    """libcuda as far as runtime/gpu/cuda.py calls it: a device of some capability, memory that is emulated."""

    def __init__(self, capability, count=1):
        self.capability, self.count, self.loaded, self.linked = capability, count, [], []
        self.version, self.code, self.states, self.pools, self.lacks = 13000, None, 0, 1, ()
        self.context, self.seen = 9, []  # of this thread, an other device's; those in which memory was given back
        for name, address in standing.emulator(FUNCTIONS).items():
            setattr(self, name, ctypes.CFUNCTYPE(ctypes.c_int)(address))

    def __getattr__(self, name):
        if name in self.lacks:
            raise AttributeError(name)
        return {
            "cuInit": lambda flags: 0 if self.count else 100,
            "cuDeviceGet": lambda out, number: self.give(out, 0),
            "cuDeviceGetAttribute": self.attribute,
            "cuDevicePrimaryCtxRetain": lambda out, number: self.give(out, 1),
            "cuDeviceGetDefaultMemPool": lambda out, number: self.give(out, 2),
            "cuMemPoolSetAttribute": lambda pool, what, value: int((pool.value, what) != (2, 4)),
            "cuCtxSetCurrent": self.make_current,
            "cuCtxGetCurrent": lambda out: self.give(out, self.context),
            "cuPointerGetAttribute": self.about_memory,
            "cuDeviceGetName": lambda name, size, number: self.give(name, b"Imagined 1"),
            "cuDeviceTotalMem_v2": lambda out, number: self.give(out, 2**33),
            "cuDriverGetVersion": lambda out: self.give(out, self.version),
            "cuModuleLoadData": self.load,
            "cuLinkCreate_v2": self.begin,
            "cuLinkAddData_v2": self.add,
            "cuLinkComplete": self.complete,
            "cuLinkDestroy": self.end,
            "cuModuleGetFunction": lambda out, module, name: self.give(out, 7 if name == b"kernel_0" else 0),
            "cuGetErrorString": lambda status, out: self.give(out, b"no luck"),
        }[name]

    @staticmethod
    def give(out, value):
        getattr(out, "_obj", out).value = value
        return 0

    def attribute(self, out, what, number):
        return self.give(out, {75: self.capability // 10, 76: self.capability % 10, 115: self.pools}[what])

    def make_current(self, context):
        self.context = context.value
        return 0

    def about_memory(self, out, what, address):
        assert (what, self.context) == (9, 1)
        return self.give(out, address.value >> 40) if address.value >> 20 else 1

    def load(self, out, code):
        self.loaded.append(code)
        return self.give(out, 3) or (0 if code.startswith(b"\x7fELF") else 200)

    def begin(self, count, options, values, state):
        self.states += 1
        assert (count, list(options), values[1]) == (2, [5, 6], 4096)
        self.log_at = values[0]
        return self.give(state, 5)

    def add(self, state, kind, text, size, name, *options):
        self.linked.append(text.raw)
        assert (state.value, kind, size.value, options) == (5, 1, len(text.raw), (0, None, None)) and text.raw[-1] == 0
        if text.raw.startswith(b"//"):
            return 0
        ctypes.memmove(self.log_at, b"line 1: no PTX\0", 15)
        return 218  # CUDA_ERROR_INVALID_PTX

    def complete(self, state, code, size):
        self.code = ctypes.create_string_buffer(b"\x7fELF" + self.linked[-1][-9:-1])
        return self.give(code, ctypes.addressof(self.code)) or self.give(size, 12)

    def end(self, state):
        self.states -= 1
        ctypes.memset(self.code, 0, 13)  # its memory is gone
        return 0


def test_the_launcher_for_the_hardware_asks_the_driver_as_it_should(monkeypatch):
    """As far as can be seen without a driver: what is asked for, in what order, and what is done with the answers."""
    monkeypatch.setenv("DLVM_CACHE", "0")
    library = Library(120)
    on = Hardware(cuda.Driver(library))
    assert on.memory == 2**33
    assert on.name == "sm_90" and on.description == "Imagined 1 (sm_90), driver for CUDA 13.0" and on.enter() == 0
    assert on.kernels(b"// kernels", 1)[0] == [7]
    assert library.loaded[0].startswith(b"\x7fELF") and not library.states
    there = on.allocate(8, 0)
    value, back = ctypes.c_double(1.5), ctypes.c_double()
    on.write(there, ctypes.addressof(value), 8, 0)
    on.read(ctypes.addressof(back), there, 8, 0)
    on.free(there, 0)
    assert back.value == 1.5
    library.code = ctypes.create_string_buffer(13)
    assert library.context == 1  # entered, and not left
    with pytest.raises(dlvm.DeviceError, match=r"cuLinkAddData_v2 failed: no luck \(CUDA error 218\)\nline 1: no PTX"):
        on.kernels(b"no kernels", 0)
    assert not library.states


def test_memory_is_cupys_from_when_it_is_imported(hardware, monkeypatch):
    """What was the driver's goes back to the driver."""
    of_driver, asked = hardware.allocate(8, 0), []
    before, cupy = live(), types.ModuleType("cupy")
    cupy.cuda = types.SimpleNamespace(alloc=lambda n: asked.append(n) or types.SimpleNamespace(ptr=0x7000))
    assert hardware.pool is None
    monkeypatch.setitem(sys.modules, "cupy", cupy)
    assert hardware.allocate(0, 0) == 0x7000 and asked == [1] and live() == before
    hardware.free(0x7000, 0)  # which the driver does not know
    assert live() == before and not hardware.pool.give(0x7000)
    hardware.free(of_driver, 0)
    assert live() == before - 1


class Elsewhere:
    """An array of somebody else's, of which the interface is all that there is."""

    def __init__(self, address, stream=None, count=4):
        self.__cuda_array_interface__ = {
            "shape": (count,), "typestr": "<f8", "data": (address, False), "version": 3, "stream": stream
        }  # fmt: skip


@pytest.fixture
def hardware(monkeypatch):
    """A device behind an imagined driver, which has the memory and the kernels of the emulator."""
    library = Library(90)
    on, emulated = Hardware(cuda.Driver(library)), device_module.Device(standing.emulator(FUNCTIONS))
    on.library, on.waited = library, []
    on.kernels = emulated.kernels
    on.name = device_module.EMULATOR
    wait = on.wait
    on.wait = lambda stream: on.waited.append((stream, library.context)) or wait(stream)
    monkeypatch.setenv("DLVM_GPU", "emulator")
    monkeypatch.setattr(device_module, "_device", lambda name: on)
    library.context = 9
    return on


def doubled(x):
    return x * 2.0


def test_a_call_leaves_the_device_current_that_was(hardware):
    x = to_device(np.arange(4.0))
    assert hardware.library.context == 9
    y = dlvm.jit(doubled, target="gpu")(x)
    assert hardware.library.context == 9 and hardware.waited == []
    np.testing.assert_array_equal(y.numpy(), [0.0, 2.0, 4.0, 6.0])
    free = hardware.free
    hardware.free = lambda *args: hardware.library.seen.append(hardware.library.context) or free(*args)
    del y
    assert hardware.library.seen == [1] and hardware.library.context == 9
    with pytest.raises(dlvm.ArgumentError):
        dlvm.jit(doubled, target="gpu")(Elsewhere(1 << 41))
    assert hardware.library.context == 9


def test_memory_of_another_device_or_of_none_is_refused(hardware):
    with pytest.raises(dlvm.ArgumentError, match=r"argument 'x' of doubled\(\) is on device 2, and .* device 0"):
        dlvm.jit(doubled)(Elsewhere(2 << 40))
    with pytest.raises(dlvm.ArgumentError, match=r"argument 'x' of doubled\(\) says that it is on a CUDA device"):
        dlvm.jit(doubled)(Elsewhere(1 << 10))
    assert dlvm.jit(doubled)(Elsewhere(0, count=0)).shape == (0,)


def test_other_streams_wait_and_are_waited_for(hardware, monkeypatch):
    """Before what they do to arguments is done; behind the call whoever has the memory may give it back."""
    owner, f = to_device(np.arange(4.0)), dlvm.jit(doubled, target="gpu")
    f(owner)
    for stream, expected in [(1, []), (None, [0]), (7, [7, 0])]:
        hardware.waited.clear()
        f(replace(owner, stream=stream))
        assert hardware.waited == [(stream, 1) for stream in expected]
    # PyTorch does not say its stream, and can be asked; each thread has a default stream of its own
    torch = types.ModuleType("torch")
    torch.Tensor = type("Tensor", (Elsewhere,), {"device": None})
    torch.cuda = types.SimpleNamespace(current_stream=lambda device: types.SimpleNamespace(cuda_stream=5))
    monkeypatch.setitem(sys.modules, "torch", torch)
    tensor = torch.Tensor(0, count=0)
    assert device_array(tensor, "x", tensor.__cuda_array_interface__).stream == 5
    hardware.waited.clear()
    monkeypatch.setattr(hardware._driver, "stream", lambda: types.SimpleNamespace(ptr=2))
    f(replace(owner, stream=2))
    assert hardware.waited == [(2, 1)]


def test_a_stream_stays_as_long_as_memory_that_is_given_back_on_it(hardware, monkeypatch):
    class Stream:
        ptr = 0

    stream = Stream()
    gone = weakref.ref(stream)
    monkeypatch.setattr(hardware._driver, "stream", gone)
    y = dlvm.jit(doubled, target="gpu")(to_device(np.arange(4.0)))
    del stream
    gc.collect()
    assert gone() is not None
    del y
    gc.collect()
    assert gone() is None


def test_a_fork_is_told_that_it_has_no_device(hardware, monkeypatch):
    y = to_device(np.arange(4.0))
    monkeypatch.setattr(cuda.os, "getpid", lambda: -1)
    f = dlvm.jit(doubled, target="gpu")
    for call in (lambda: to_device(np.arange(4.0)), y.numpy, lambda: f(Elsewhere(0, count=0))):
        with pytest.raises(dlvm.DeviceError, match="forked from one that used the device"):
            call()
    monkeypatch.setattr(hardware, "free", None)
    del y  # is the parent's


def test_a_driver_that_gives_no_memory_says_why(hardware, monkeypatch):
    """What a failed kernel has broken is no lack of memory."""
    f, x = dlvm.jit(doubled, target="gpu"), to_device(np.arange(4.0))
    f(x)
    kind = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_void_p)
    for status, error, words in ((700, dlvm.DeviceError, r"no luck \(CUDA error 700\)"), (2, MemoryError, None)):
        fails = kind(lambda *_, status=status: status)
        monkeypatch.setitem(hardware.imports, "cuda:cuMemAllocAsync", ctypes.cast(fails, ctypes.c_void_p).value)
        with pytest.raises(error, match=words):
            dlvm.jit(doubled, target="gpu")(x)


# capability of the device, the driver's version of CUDA: what PTX is written for
CHOSEN = {
    (75, 11040): 75,
    (80, 11040): 80,
    (86, 11040): 86,
    (87, 11040): 86,
    (89, 11070): 86,  # such a driver does not read PTX 7.8
    (89, 11080): 89,
    (90, 12000): 90,
    (90, 11070): 86,
    **{(later, 13000): 90 for later in (100, 101, 103, 110, 120, 121)},
}


@pytest.mark.parametrize(("capability", "version"), CHOSEN)
def test_ptx_is_what_the_device_runs_and_the_driver_reads(capability, version):
    library = Library(capability)
    library.version = version
    assert cuda.Driver(library).architecture == f"sm_{CHOSEN[capability, version]}"


def test_drivers_read_what_llvm_writes():
    """The version of PTX for each capability came with that CUDA: 6.3 with 10.0, 7.y with 11.y."""
    for capability, since in cuda.CAPABILITIES.items():
        major, minor = map(
            int, re.search(r"^\.version (\d+)\.(\d+)$", ptx([], f"sm_{capability}"), re.MULTILINE).groups()
        )
        assert major in (6, 7) and (10000 if (major, minor) == (6, 3) else 11000 + 10 * minor) == since


def test_what_is_wrong_with_the_driver_or_the_device_is_said():
    def library(capability=86, **more):
        found = Library(capability, more.pop("count", 1))
        for name, value in more.items():
            setattr(found, name, value)
        return found

    for wrong, words in [
        (library(70), "compute capability 7.0: kernels need 7.5"),
        (library(count=0), r"finds no device: no luck \(CUDA error 100\)"),
        (library(pools=0), "no memory pools"),
        # what came with CUDA 11.2, and with 11.4
        (library(lacks=("cuDeviceGetDefaultMemPool",)), "older than CUDA 11.4: it has no cuDeviceGetDefaultMemPool"),
    ]:
        with pytest.raises(dlvm.DeviceError, match=words):
            cuda.Driver(wrong)
    older = library()
    del older.cuGraphInstantiateWithFlags
    older.lacks = ("cuGraphInstantiateWithFlags",)
    with pytest.raises(dlvm.DeviceError, match="older than CUDA 11.4: it has no cuGraphInstantiateWithFlags"):
        Hardware(cuda.Driver(older))


def test_code_of_a_device_is_kept_for_the_next_process(monkeypatch, tmp_path):
    first, second, other, newer = Library(90), Library(90), Library(86), Library(90)
    monkeypatch.setenv("DLVM_CACHE", "1")  # from here on: the emulator, made for the first of all, is kept as well
    monkeypatch.setenv("DLVM_CACHE_DIR", str(tmp_path))
    newer.version = 13010
    for library in (first, second, other, newer):
        cuda.Driver(library).kernels(b"// kernels", ["kernel_0"])
    # by the text, the device and the driver
    assert [len(library.linked) for library in (first, second, other, newer)] == [1, 0, 1, 1]
    assert second.loaded == first.loaded
    # what the driver does not load is made again
    third, files = Library(90), list(tmp_path.glob("*"))
    third.load = lambda out, code: Library.load(third, out, code) or int(len(third.loaded) == 1)
    cuda.Driver(third).kernels(b"// kernels", ["kernel_0"])
    assert len(third.linked) == 1 and len(third.loaded) == 2 and len(files) == 3


# -- the prototypes --------------------------------------------------------------------------------------

HEADERS = [Path("/usr/local/cuda/include/cuda.h")]
if found := assembler():
    HEADERS.insert(0, Path(found).resolve().parents[1] / "include" / "cuda.h")
HEADER = next((h for h in HEADERS if h.is_file()), None)
# by size and kind, which is what a call needs
_BY_CTYPE = {ctypes.c_void_p: "ptr", ctypes.c_size_t: "i64", int: "i32", ctypes.c_int: "i32"}


def prototypes():
    """The functions of cuda.h by the names that the library has, each with the LLVM types of its parameters."""
    text = re.sub(r"/\*.*?\*/|//[^\n]*", "", HEADER.read_text(encoding="utf-8"), flags=re.DOTALL)
    renamed = dict(re.findall(r"^#define (cu\w+)\s+(cu\w+)$", text, re.MULTILINE))
    handles = {"CUdeviceptr", *re.findall(r"typedef struct \w+ ?\*(\w+);", text)}
    found = {}
    # behind these are the functions of old programs, by their own names
    is_old = min(m.start() for m in re.finditer(r"#undef cu", text))
    for m in re.finditer(r"CUresult\s+CUDAAPI\s+(\w+)\s*\(([^()]*)\);", text):
        types = []
        for parameter in m[2].split(","):
            is_pointer = "*" in parameter or any(word in handles for word in re.findall(r"\w+", parameter))
            is_long = re.search(r"size_t|long long|uint64_t", parameter)
            types.append("ptr" if is_pointer else "i64" if is_long else "i32")
        name = m[1] if m.start() > is_old else renamed.get(m[1], m[1])
        found.setdefault(name, types)
    return found


def kind_of(value):
    """The LLVM type that ctypes passes a value as."""
    return _BY_CTYPE.get(type(value), "ptr")


@pytest.mark.skipif(HEADER is None, reason="there is no cuda.h")
def test_functions_are_called_as_the_header_declares_them(monkeypatch, tmp_path):
    declared = prototypes()
    for name, parameters in _SIGNATURES.items():
        assert [_BY_CTYPE[t] for t in parameters] == declared[name], name
    folder = Path(native.__file__).parent
    host, emulator = ((folder / name).read_text(encoding="utf-8") for name in ("gpu.ll", "emulator.ll"))
    called = dict(re.findall(r"\{import:cuda:(\w+)\}\n(?:.*\n)*?.*?call i32 %\w+\(([^()]*)\)", host))
    defined = dict(re.findall(r"define i32 @dlvm\.emulator\.(cu\w+)\(([^()]*)\)", emulator))
    assert set(called) | set(_SIGNATURES) == set(defined) == set(FUNCTIONS)
    for name, parameters in (*called.items(), *defined.items()):
        assert [p.split()[0] for p in parameters.split(",")] == declared[name], name
    # what Python calls, by what it is called with
    monkeypatch.setenv("DLVM_CACHE", "1")
    monkeypatch.setenv("DLVM_CACHE_DIR", str(tmp_path))
    seen, do = {}, cuda.Driver._do

    def noting(driver, name, *args):
        seen.setdefault(name, [kind_of(a) for a in args])
        do(driver, name, *args)

    monkeypatch.setattr(cuda.Driver, "_do", noting)
    on = Hardware(cuda.Driver(Library(90)))
    on.kernels(b"// kernels", 1)
    with on.current():
        assert on.number_of(1 << 30) == 0
    seen["cuPointerGetAttribute"] = ["ptr", "i32", "ptr"]
    assert {"cuCtxGetCurrent", "cuDevicePrimaryCtxRetain", "cuLinkAddData_v2", "cuModuleGetFunction"} <= set(seen)
    assert "cuDeviceTotalMem_v2" in seen
    assert {name: declared[name] for name in seen} == seen
