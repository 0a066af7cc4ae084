"""Kernels that slangpy compiles for Vulkan and runs over a buffer. Prints a hash of it."""

import hashlib
import itertools

import numpy as np
import slangpy as spy

SOURCE = """
[shader("compute")]
[numthreads(64, 1, 1)]
void compute_main(uint3 id : SV_DispatchThreadID, uniform RWStructuredBuffer<uint> values)
{
    uint value = values[id.x];
    for (uint i = 0; i < ROUNDS; i++)
        value = (value OPERATION (i * 2654435761u + id.x)) ^ (value >> 7);
    values[id.x] = value;
}
"""

# Nothing is kept by slangpy itself: each run asks the driver for all of them.
device = spy.Device(type=spy.DeviceType.vulkan, enable_compilation_reports=False, enable_print=False)
count = 1024
values = device.create_buffer(
    element_count=count,
    struct_size=4,
    usage=spy.BufferUsage.shader_resource | spy.BufferUsage.unordered_access,
    data=np.arange(count, dtype=np.uint32),
)
kinds = itertools.product(("+", "-", "*", "^", "|"), (3, 5, 7, 11, 13, 17))
for number, (operation, rounds) in enumerate(kinds):
    source = SOURCE.replace("OPERATION", operation).replace("ROUNDS", str(rounds))
    module = device.load_module_from_source(f"kernel{number}", source)
    program = device.link_program([module], [module.entry_point("compute_main")])
    kernel = device.create_compute_kernel(program)
    kernel.dispatch(thread_count=[count, 1, 1], vars={"values": values})
device.wait()
print(hashlib.sha256(values.to_numpy().tobytes()).hexdigest())
device.close()
