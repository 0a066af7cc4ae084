"""Kernels that taichi compiles for Vulkan and runs. Prints a hash of each result."""

import hashlib
import sys

import taichi as ti

# With its own disk cache taichi would create fewer pipelines in later runs.
ti.init(arch=ti.vulkan, offline_cache=False, log_level=ti.WARN, random_seed=1)
if ti.lang.impl.current_cfg().arch != ti.vulkan:
    sys.exit("taichi has no Vulkan device here")

SIDE = 128
picture = ti.field(ti.f32, shape=(SIDE, SIDE))
numbers = ti.field(ti.i32, shape=1024)
total = ti.field(ti.i32, shape=())


@ti.kernel
def julia(steps: ti.i32):
    for x, y in picture:
        z = ti.Vector([x / SIDE * 3.0 - 1.5, y / SIDE * 3.0 - 1.5])
        count = 0
        while z.norm() < 20.0 and count < steps:
            z = ti.Vector([z[0] * z[0] - z[1] * z[1] - 0.8, 2.0 * z[0] * z[1] + 0.2])
            count += 1
        picture[x, y] = 1.0 - count * 0.02


@ti.kernel
def fill(factor: ti.i32):
    for i in numbers:
        numbers[i] = i * factor ^ (i >> 3)


@ti.kernel
def add():
    for i in numbers:
        ti.atomic_add(total[None], numbers[i] & 0xFFFF)


def digest(field):
    return hashlib.sha256(field.to_numpy().tobytes()).hexdigest()[:16]


julia(50)
print("julia:", digest(picture))
fill(7919)
print("fill:", digest(numbers))
add()
print("add:", digest(total))
ti.sync()
ti.reset()
