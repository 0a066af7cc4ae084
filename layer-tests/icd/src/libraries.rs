//! Pipeline libraries, and the rules for linking them.

use ash::vk::{self, Handle as _};

use crate::content::slice;
use crate::flags::{FAIL_ON, LIBRARY, LINK_TIME_OPTIMIZATION, RETAIN};
use crate::handles::Device;
use crate::objects::{self, Body, Layout, Pipeline};
use crate::record::{Call, violation};
use crate::shape::{FRAGMENT, OUTPUT, PRE_RASTER, Shape, VERTEX_INPUT};

/// The libraries that a create info links. Each that is not a library of this `kind` is a violation.
///
/// # Safety
/// `info` is valid: pLibraries has libraryCount elements during this call.
pub unsafe fn linked(
    call: &Call,
    device: &Device,
    kind: &str,
    info: &vk::PipelineLibraryCreateInfoKHR<'_>,
) -> Vec<Pipeline> {
    let name = call.command;
    let mut found = Vec::new();
    // SAFETY: the caller passes a valid structure, so pLibraries has libraryCount elements.
    for library in unsafe { slice(info.p_libraries, info.library_count) } {
        let body = objects::get(name, device.handle, "VkPipeline", library.as_raw());
        let Some(Body::Pipeline(library)) = body else { continue };
        if library.flags & LIBRARY == 0 {
            violation(format!("{name}: a linked pipeline is no library"));
        }
        if library.kind != kind {
            violation(format!("{name}: a {} library is linked into a {kind} pipeline", library.kind));
        }
        found.push(library);
    }
    found
}

/// Checks the rules for linking graphics libraries.
pub fn check_link(call: &Call, flags: u64, shape: &Shape, own: Option<Layout>, linked: &[Pipeline]) {
    if linked.is_empty() {
        return;
    }
    let complain = |what: &str| violation(format!("{}: {what}", call.command));
    let mut subsets = shape.subsets;
    for library in linked {
        if subsets & library.subsets != 0 {
            complain("a subset is there twice");
        }
        subsets |= library.subsets;
    }
    if flags & LIBRARY == 0 {
        let mut needed = VERTEX_INPUT | PRE_RASTER | FRAGMENT | OUTPUT;
        if shape.discard {
            needed &= !(FRAGMENT | OUTPUT);
        }
        if shape.mesh || linked.iter().any(|library| library.mesh) {
            needed &= !VERTEX_INPUT;
        }
        if needed & !subsets != 0 {
            complain("a subset is missing");
        }
    }
    if flags & (LINK_TIME_OPTIMIZATION | RETAIN) != 0
        && linked.iter().any(|library| library.flags & RETAIN == 0)
    {
        complain("a library did not retain what link time optimization needs");
    }
    if flags & (LINK_TIME_OPTIMIZATION | RETAIN) != 0 && linked.iter().any(|library| library.from_binaries) {
        complain("a library that was made of binaries has no code for link time optimization");
    }
    if linked.iter().any(|library| library.by_identifier) && flags & FAIL_ON == 0 {
        complain("a library with an identifier is linked without FAIL_ON (06855)");
    }
    let layouts: Vec<Layout> = linked
        .iter()
        .filter(|library| library.subsets & (PRE_RASTER | FRAGMENT) != 0)
        .filter_map(|library| library.layout)
        .chain(own.filter(|_| shape.any(PRE_RASTER | FRAGMENT)))
        .collect();
    if let [first, others @ ..] = &layouts[..] {
        if others.iter().any(|other| other.independent != first.independent) {
            complain("layouts with and without INDEPENDENT_SETS are linked");
        } else if !first.independent && others.iter().any(|other| other.digest != first.digest) {
            complain("different layouts are linked without INDEPENDENT_SETS");
        }
    }
}
