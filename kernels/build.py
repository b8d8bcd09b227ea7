"""Builds what is machine code in the package: runtimes, and the execution provider for ONNX Runtime.

`python kernels/build.py --out DIR` compiles `kernels/host/*.cpp` to one LLVM bitcode file `host-LEVEL.bc` per
instruction-set level, the same as machine code `host-LEVEL.a`, `kernels/runtime/*.cpp` to one bitcode file
`gpu-PLATFORM.bc` per platform of HIP, and writes the manifest `native.json`; then it builds the provider (see
`kernels/provider.py`). Sources are compiled one by one (results are kept under `DIR/.objects` by content) and linked
with llvmlite, so any clang will do: the one of the knob `HIPC_CLANG`, clang-22, or the one in the `ziglang` package.
Compiling and linking are `hip_compiler.toolchain`, which plugins use too.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import multiprocessing
import os
import re
import subprocess
import sys
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
if str(ROOT) not in sys.path:
    sys.path.insert(0, str(ROOT))

from hip_compiler.errors import ErrorCode, HipCompilerError  # noqa: E402
from hip_compiler.toolchain.bitcode import (  # noqa: E402
    alone,
    build_bitcode,
    compile_all,
    headers_digest,
    link_all,
    object_of,
)
from hip_compiler.toolchain.compiler import Compiler, find_compiler  # noqa: E402
from hip_compiler.toolchain.device import (  # noqa: E402
    ARCHITECTURES,
    SAME_CODE,
    build_functions,
    build_images,
    write_pack,
)
from hip_compiler.toolchain.kernels import gpu_architectures  # noqa: E402
from hip_compiler.toolchain.levels import (  # noqa: E402
    LEVELS,
    Level,
    host_architecture,
    levels_of,
    native_level,
)
from kernels.provider import build_provider  # noqa: E402

INCLUDE = ROOT / "kernels" / "include"
HOST = ROOT / "kernels" / "host"
GPU = ROOT / "kernels" / "runtime"
DEVICE = ROOT / "kernels" / "device"
DEFAULT_OUT = ROOT / "hip_compiler" / "_native"
EXPORT_PREFIX = "hipc_"


def runtime_sources() -> tuple[Path, ...]:
    """Sources of the host runtime, in name order."""
    return tuple(sorted(HOST.glob("*.cpp")))


def gpu_sources() -> tuple[Path, ...]:
    """Sources of the runtime for GPUs, in name order."""
    return tuple(sorted(GPU.glob("*.cpp")))


def gpu_levels(arch: str) -> tuple[Level, ...]:
    """One per platform of HIP, on the weakest CPU of the architecture: nothing in this runtime computes."""
    base = levels_of(arch)[0]
    return (
        replace(base, name="amd"),
        replace(base, name="nvidia", flags=(*base.flags, "-DHIPC_PLATFORM_NVIDIA")),
    )


def build_gpu(
    out: Path = DEFAULT_OUT,
    arch: str | None = None,
    compiler: Compiler | None = None,
    sources: Sequence[Path] | None = None,
) -> dict[str, Path]:
    """Build `gpu-amd.bc` and `gpu-nvidia.bc`: the runtime for GPUs, or some sources of it, by platform of HIP."""
    arch = arch or host_architecture()
    chosen = gpu_sources() if sources is None else sources
    # It shares headers with the host runtime and the device kernels; they are part of the cache's key.
    includes = (INCLUDE, HOST, DEVICE)
    stem = "gpu" if sources is None else "gpu-part"
    return build_bitcode(chosen, out, gpu_levels(arch), includes, arch=arch, stem=stem, compiler=compiler)


def kernel_sources() -> tuple[Path, ...]:
    """Sources of the device kernels, in name order."""
    return tuple(sorted(DEVICE.glob("*.hip")))


def build_pack(
    out: Path = DEFAULT_OUT, architectures: Sequence[str] = ARCHITECTURES, compiler: Compiler | None = None
) -> Path:
    """Build `kernels.pack`: the device kernels for GPU architectures, all that the library knows by default."""
    images = build_images(kernel_sources(), out, architectures, compiler=compiler, same_code=SAME_CODE)
    return write_pack(images, out / "kernels.pack")


def _generate(part: Path, cpu: str, features: Sequence[str]) -> Path:
    """Machine code of one source's bitcode, beside it."""
    import llvmlite.binding as llvm

    target = object_of(part)
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    module = llvm.parse_bitcode(part.read_bytes())
    machine = llvm.Target.from_triple(module.triple).create_target_machine(
        cpu=cpu, features=",".join(f"+{feature}" for feature in features), opt=3, reloc="pic", codemodel="small"
    )
    private = target.with_suffix(f".{os.getpid()}.tmp")
    private.write_bytes(machine.emit_object(module))
    private.replace(target)
    return target


def _generate_all(parts: Mapping[str, Sequence[Path]], levels: Sequence[Level]) -> dict[str, list[Path]]:
    """Machine code of every source, by level name."""
    cpus = {"armv8-a": "generic", "armv8.2-a": "generic", "armv8.6-a": "generic"}
    missing = [
        (part, cpus.get(level.cpu, level.cpu), level.features)
        for level in levels
        for part in parts[level.name]
        if not object_of(part).exists()
    ]
    if missing:
        # Processes, since in one process llvmlite lets in one caller at a time.
        workers = min(os.cpu_count() or 1, len(missing))
        with ProcessPoolExecutor(workers, mp_context=multiprocessing.get_context("spawn")) as pool:
            for job in [pool.submit(_generate, *arguments) for arguments in missing]:
                job.result()
    return {name: [object_of(part) for part in files] for name, files in parts.items()}


def _archive(objects: Sequence[Path], target: Path) -> Path:
    """A static library, as `ar` writes it with `D` and `S`: no times, no owners, no index of symbols."""
    content = [b"!<arch>\n"]
    for path in objects:
        data = path.read_bytes()
        name = path.name.partition("-")[0][:13] + ".o/"
        content.append(f"{name:<16}{0:<12}{0:<6}{0:<6}{644:<8}{len(data):<10}`\n".encode())
        content.append(data + b"\n" * (len(data) % 2))
    private = target.with_suffix(f".{os.getpid()}.tmp")
    private.write_bytes(b"".join(content))
    private.replace(target)
    return target


def abi_version() -> int:
    """Version of the runtime ABI, from its header."""
    found = re.search(r"^#define HIPC_ABI_VERSION (\d+)$", (INCLUDE / "hipc.h").read_text(), re.MULTILINE)
    if found is None:
        raise HipCompilerError(ErrorCode.INTERNAL, "hipc.h defines no HIPC_ABI_VERSION")
    return int(found.group(1))


def build_native(
    out: Path = DEFAULT_OUT,
    arch: str | None = None,
    levels: Sequence[Level] | None = None,
    gpus: Sequence[str] | None = None,
) -> dict[str, Path]:
    """Build the runtimes for an architecture, the host's for its levels, the device kernels for GPU architectures
    (by default those of the knob `HIPC_BUILD_GPUS`, else all; none when `gpus` is empty), and `native.json`.

    The manifest holds `abi_version`, `compiler`, `source_digest`, `levels`, weakest first: `name`, `arch`, `file`
    (bitcode), `archive` (machine code), and the LLVM CPU features that it `requires`; and `gpu`: `platform`, `arch`,
    `file`.
    """
    arch = arch or host_architecture()
    chosen = levels_of(arch) if levels is None else levels
    compiler = find_compiler()
    sources = runtime_sources()
    with alone(out):
        parts = compile_all(sources, out, chosen, (INCLUDE,), arch, compiler)
        built = link_all(parts, out, "host", EXPORT_PREFIX)
        objects = _generate_all(parts, chosen)
        # Models that are loaded on a level share its machine code.
        archives = {name: _archive(found, out / f"host-{name}.a") for name, found in objects.items()}
    gpu = build_gpu(out, arch, compiler)
    build_functions(DEVICE / "math.cpp", out, compiler)
    gpus = gpu_architectures() if gpus is None else gpus
    if gpus:
        build_pack(out, gpus, compiler)
    digest = hashlib.sha256(headers_digest(sources, (INCLUDE,)))
    for source in sources:
        digest.update(source.name.encode() + b"\0" + source.read_bytes() + b"\0")
    manifest = {
        "abi_version": abi_version(),
        "compiler": compiler.version,
        "source_digest": digest.hexdigest(),
        "levels": [
            {
                "name": level.name,
                "arch": arch,
                "file": built[level.name].name,
                "archive": archives[level.name].name,
                "requires": list(level.requires),
            }
            for level in chosen
        ],
        "gpu": [{"platform": platform, "arch": arch, "file": path.name} for platform, path in gpu.items()],
    }
    private = out / f"native.json.{os.getpid()}.tmp"
    private.write_text(json.dumps(manifest, indent=2) + "\n")
    private.replace(out / "native.json")
    if arch == host_architecture():
        build_provider(out, compiler)
    return built


def build_shared(out: Path, level: Level | None = None, sources: Sequence[Path] | None = None) -> Path:
    """Build the host runtime as a shared library, of the objects that the archives hold; for tests.

    Args:
        out: folder for `libhipc-STEM-LEVEL-DIGEST.so`.
        level: level; the strongest that this machine runs when not given.
        sources: the part of the runtime to build; all of it when not given.
    """
    level = level or native_level()
    compiler = find_compiler()
    chosen = runtime_sources() if sources is None else sources
    stem = f"libhipc-{'host' if sources is None else 'part'}-{level.name}"
    with alone(out):
        parts = compile_all(chosen, out, (level,), (INCLUDE,), host_architecture(), compiler)
        objects = _generate_all(parts, (level,))[level.name]
        # Their names say what they hold.
        digest = hashlib.sha256("\n".join(path.name for path in objects).encode()).hexdigest()[:24]
        library = out / f"{stem}-{digest}.so"
        if not library.exists():
            _link_shared(compiler, objects, library)
        for old in out.glob(f"{stem}-*.so"):
            if old != library and re.fullmatch(r"[0-9a-f]{24}", old.stem.removeprefix(f"{stem}-")):
                old.unlink(missing_ok=True)
    return library


def _link_shared(compiler: Compiler, objects: Sequence[Path], library: Path) -> None:
    private = library.with_suffix(f".{os.getpid()}.tmp")
    target = ["-target", f"{host_architecture()}-linux-gnu"] if compiler.is_zig else []
    command = [*compiler.command, *target, "-shared", *map(str, objects), "-o", str(private), "-lm", "-lpthread"]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    if result.returncode != 0:
        raise HipCompilerError(
            ErrorCode.NOT_BUILT, "the host runtime does not link", details=result.stderr.strip().splitlines()[:40]
        )
    private.replace(library)


def main(arguments: Sequence[str] | None = None) -> int:
    """Command line of the build."""
    parser = argparse.ArgumentParser(description="Build the host runtime as LLVM bitcode.")
    parser.add_argument("--out", type=Path, default=DEFAULT_OUT, help="folder for the results (default: %(default)s)")
    parser.add_argument("--arch", choices=sorted(LEVELS), default=None, help="architecture (default: this machine's)")
    parser.add_argument("--level", action="append", help="build only this level; may be repeated")
    parser.add_argument("--gpu", action="append", help="build the device kernels only for this GPU; may be repeated")
    parser.add_argument("--no-gpu", action="store_true", help="build no device kernels")
    options = parser.parse_args(arguments)
    try:
        gpus = () if options.no_gpu else tuple(options.gpu or gpu_architectures())
        if strange := set(gpus) - set(ARCHITECTURES):
            parser.error(f"unknown GPU {', '.join(sorted(strange))}; known are {', '.join(ARCHITECTURES)}")
        levels = levels_of(options.arch or host_architecture())
        unknown = set(options.level or ()) - {level.name for level in levels}
        if unknown:
            parser.error(f"unknown level {', '.join(sorted(unknown))}; known are {', '.join(x.name for x in levels)}")
        chosen = [level for level in levels if not options.level or level.name in options.level]
        for path in build_native(options.out, options.arch, chosen, gpus).values():
            print(path)
    except HipCompilerError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
