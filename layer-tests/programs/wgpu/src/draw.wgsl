struct Corner {
    @builtin(position) position: vec4<f32>,
    @location(0) color: vec3<f32>,
}

@vertex
fn from_index(@builtin(vertex_index) index: u32) -> Corner {
    let x = f32(index & 1u) * 1.6 - 0.8;
    let y = f32(index >> 1u) * 1.6 - 0.8;
    return Corner(vec4(x, y, 0.5, 1.0), vec3(f32(index) * 0.5, 0.25, 0.75));
}

@vertex
fn from_buffer(@location(0) position: vec2<f32>, @location(1) color: vec3<f32>) -> Corner {
    return Corner(vec4(position, 0.5, 1.0), color);
}

override nth: u32 = 1u;

@fragment
fn flat(corner: Corner) -> @location(0) vec4<f32> {
    return vec4(corner.color / f32(nth), 1.0);
}

@fragment
fn waves(corner: Corner) -> @location(0) vec4<f32> {
    var sum = 0.0;
    for (var i = 1; i < 5 + i32(nth); i++) {
        sum += sin(corner.position.x * f32(i) * 0.21) * cos(corner.position.y * f32(i) * 0.17);
    }
    return vec4(corner.color * (0.5 + 0.1 * sum), 0.5);
}
