//! Threads that end inside the library: `pthread_exit` in a signal handler, as Wine ends the threads of a Windows
//! program whose process ends, and cancellation.
//!
//! The C library then unwinds the thread's stack by force. Where it meets `catch_unwind`, which is for panics, the
//! process is aborted; a process that ends with code 4 ends with SIGABRT, before it has closed its files. So a forced
//! unwind passes through the library's frames as if they were those of C functions: nothing is caught, and nothing is
//! dropped, because destructors may call a driver whose locks this thread holds.
#![allow(unsafe_code, reason = "the interface between unwinders and languages")]
#![cfg_attr(
    target_arch = "arm",
    allow(dead_code, unused_imports, reason = "nothing of this is possible there")
)]

use std::ffi::{c_int, c_void};
use std::mem;
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};

/// `_Unwind_Personality_Fn`: what an unwinder asks about each frame of a language (Itanium C++ ABI, "Exception
/// Handling", 2.5.2).
type Personality = unsafe extern "C" fn(c_int, c_int, u64, *mut c_void, *mut c_void) -> c_int;

/// `_UA_FORCE_UNWIND`
const FORCE_UNWIND: c_int = 8;
/// `_URC_CONTINUE_UNWIND`
const CONTINUE_UNWIND: c_int = 8;

// 32-bit ARM has other tables (EHABI): there a thread that ends inside the library ends the process.
#[cfg(not(target_arch = "arm"))]
unsafe extern "C" {
    /// Where the unwind tables of all Rust code in this library find the personality function, by indirection. The
    /// compiler makes one for each library or executable, in writable memory.
    #[link_name = "DW.ref.rust_eh_personality"]
    static USED: AtomicPtr<c_void>;
}

/// Rust's own.
static RUSTS: AtomicPtr<c_void> = AtomicPtr::new(ptr::null_mut());

/// See the other one.
#[cfg(target_arch = "arm")]
pub fn let_forced_unwinds_pass() {}

/// From now on forced unwinds pass through the frames of this library.
#[cfg(not(target_arch = "arm"))]
pub fn let_forced_unwinds_pass() {
    let own = personality as Personality as *mut c_void;
    // SAFETY: a pointer that only unwinders read besides this function, and that lives as long as the library.
    let used = unsafe { &USED };
    let rusts = used.load(Ordering::Acquire);
    if rusts != own {
        // Before the other one is used.
        RUSTS.store(rusts, Ordering::Release);
        used.store(own, Ordering::Release);
    }
}

unsafe extern "C" fn personality(
    version: c_int,
    actions: c_int,
    class: u64,
    exception: *mut c_void,
    context: *mut c_void,
) -> c_int {
    if actions & FORCE_UNWIND != 0 {
        return CONTINUE_UNWIND;
    }
    // SAFETY: this function is used only after Rust's own was stored here, whose type this is; the arguments are the
    // unwinder's.
    unsafe {
        let rusts: Personality = mem::transmute(RUSTS.load(Ordering::Acquire));
        rusts(version, actions, class, exception, context)
    }
}

#[cfg(test)]
mod tests {
    use std::panic::catch_unwind;

    use super::*;

    extern "C" fn ends_in_the_middle(_: *mut c_void) -> *mut c_void {
        struct Dropped;
        impl Drop for Dropped {
            fn drop(&mut self) {
                unreachable!("a destructor may wait for a lock of this thread");
            }
        }
        let result = catch_unwind(|| {
            let _dropped = Dropped;
            // SAFETY: ends this thread, whose frames own nothing.
            unsafe { libc::pthread_exit(7 as *mut c_void) }
        });
        result.unwrap_or(ptr::null_mut())
    }

    #[test]
    fn a_thread_may_end_behind_what_catches_panics_and_panics_are_caught_as_before() {
        let_forced_unwinds_pass();
        let_forced_unwinds_pass();
        let mut result = ptr::null_mut();
        // SAFETY: the thread is joined.
        unsafe {
            let mut thread = mem::zeroed();
            let started = libc::pthread_create(&mut thread, ptr::null(), ends_in_the_middle, ptr::null_mut());
            assert_eq!(started, 0);
            assert_eq!(libc::pthread_join(thread, &mut result), 0);
        }
        assert_eq!(result as usize, 7);
        assert_eq!(catch_unwind(|| panic!("on purpose")).unwrap_err().downcast_ref(), Some(&"on purpose"));
    }
}
