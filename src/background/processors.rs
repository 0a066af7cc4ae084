//! The processors that this process may use.

/// From so many on, workers make pipelines beside the program's own creation calls: on fewer they would only take its
/// processor, or the driver's lock.
const ROOMY: usize = 3;

/// How many there are.
pub fn usable() -> usize {
    // SAFETY: zeros are an empty set, which the call fills. It writes no more than the size of the set.
    unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        if libc::sched_getaffinity(0, size_of::<libc::cpu_set_t>(), &mut set) != 0 {
            return 1;
        }
        usize::try_from(libc::CPU_COUNT(&set)).unwrap_or(1).max(1)
    }
}

/// Whether workers need not wait until the program creates nothing.
pub fn are_roomy() -> bool {
    usable() >= ROOMY
}
