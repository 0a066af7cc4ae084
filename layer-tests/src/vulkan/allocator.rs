//! Allocation callbacks of a program.

use std::ffi::c_void;

use ash::vk;

/// Callbacks that allocate with the C library.
pub fn of_malloc() -> vk::AllocationCallbacks<'static> {
    vk::AllocationCallbacks::default()
        .pfn_allocation(Some(allocate))
        .pfn_reallocation(Some(reallocate))
        .pfn_free(Some(free))
}

unsafe extern "system" fn allocate(
    _: *mut c_void,
    size: usize,
    _: usize,
    _: vk::SystemAllocationScope,
) -> *mut c_void {
    // SAFETY: malloc takes any size.
    unsafe { libc::malloc(size) }
}

unsafe extern "system" fn reallocate(
    _: *mut c_void,
    original: *mut c_void,
    size: usize,
    _: usize,
    _: vk::SystemAllocationScope,
) -> *mut c_void {
    // SAFETY: memory of `allocate`.
    unsafe { libc::realloc(original, size) }
}

unsafe extern "system" fn free(_: *mut c_void, memory: *mut c_void) {
    // SAFETY: memory of `allocate`, or null.
    unsafe { libc::free(memory) }
}
