@group(0) @binding(0) var<storage, read_write> data: array<u32>;

override nth: u32 = 1u;

@compute @workgroup_size(64)
fn mix_up(@builtin(global_invocation_id) id: vec3<u32>) {
    var value = data[id.x];
    for (var i = 0u; i < nth * 3u; i++) {
        value = (value ^ (value >> 13u)) * 0x5bd1e995u + i;
    }
    data[id.x] = value;
}

@compute @workgroup_size(64)
fn mix_down(@builtin(global_invocation_id) id: vec3<u32>) {
    var value = data[id.x];
    for (var i = nth * 5u; i > 0u; i--) {
        value = (value ^ (value << 7u)) * 0x9e3779b1u - i;
    }
    data[id.x] = value;
}

var<workgroup> sums: array<u32, 64>;

@compute @workgroup_size(64)
fn add_up(@builtin(global_invocation_id) id: vec3<u32>, @builtin(local_invocation_index) local: u32) {
    sums[local] = data[id.x] & (0xffffu >> (nth / 2u));
    workgroupBarrier();
    for (var step = 32u; step > 0u; step /= 2u) {
        if (local < step) {
            sums[local] += sums[local + step];
        }
        workgroupBarrier();
    }
    data[id.x] = sums[0] + local;
}

@compute @workgroup_size(64)
fn turn_over(@builtin(global_invocation_id) id: vec3<u32>) {
    data[id.x] = reverseBits(data[id.x]) ^ (countOneBits(id.x) * nth);
}
