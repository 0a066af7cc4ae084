//! An electric fence: whoever reads a byte that may not be read dies by SIGSEGV, and the test with it.

use std::cell::Cell;
use std::os::unix::process::ExitStatusExt;
use std::process::Command;
use std::ptr;

use ash::vk;

use super::helpers::{compute_info, of_compute};

/// Copies that are alive at once in one thread; the oldest is overwritten.
const SLOTS: usize = 256;

/// Slots of one readable page, each before an inaccessible one.
struct Fence {
    start: *mut u8,
    page: usize,
    next: Cell<usize>,
}

thread_local! {
    static FENCE: Fence = Fence::new();
}

impl Fence {
    fn new() -> Fence {
        // SAFETY: a fresh anonymous mapping, of which every second page is opened.
        unsafe {
            let page = libc::sysconf(libc::_SC_PAGESIZE) as usize;
            let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
            let start = libc::mmap(ptr::null_mut(), 2 * page * SLOTS, libc::PROT_NONE, flags, -1, 0);
            assert_ne!(start, libc::MAP_FAILED);
            let start = start.cast::<u8>();
            for slot in 0..SLOTS {
                let opened = start.add(2 * page * slot).cast();
                assert_eq!(libc::mprotect(opened, page, libc::PROT_READ | libc::PROT_WRITE), 0);
            }
            Fence { start, page, next: Cell::new(0) }
        }
    }

    /// The end of the next readable page.
    fn next_end(&self) -> *mut u8 {
        let slot = self.next.get();
        self.next.set((slot + 1) % SLOTS);
        // SAFETY: within the mapping.
        unsafe { self.start.add((2 * slot + 1) * self.page) }
    }
}

impl Drop for Fence {
    fn drop(&mut self) {
        // SAFETY: the mapping that `new` made.
        unsafe { libc::munmap(self.start.cast(), 2 * self.page * SLOTS) };
    }
}

/// A pointer that may not be read.
pub fn forbidden<T>() -> *const T {
    FENCE.with(|fence| fence.start.wrapping_add(fence.page + fence.page / 2)).cast_const().cast()
}

/// A copy that ends where inaccessible memory begins; nothing readable at all where there are no elements. It
/// lives until this thread has made as many others as there are slots.
pub fn place<T: Copy>(elements: &[T]) -> *const T {
    let bytes = size_of_val(elements);
    if bytes == 0 {
        return forbidden();
    }
    FENCE.with(|fence| {
        assert!(bytes <= fence.page);
        // SAFETY: the page before the end is readable and writable, and a size is a multiple of its alignment.
        unsafe {
            let copy = fence.next_end().sub(bytes);
            ptr::copy_nonoverlapping(elements.as_ptr().cast(), copy, bytes);
            copy.cast_const().cast()
        }
    })
}

/// A copy of one structure.
pub fn place_one<T: Copy>(structure: T) -> *const T {
    place(&[structure])
}

/// Names what the child is to do.
const VICTIM: &str = "VKSTASH_TEST_VICTIM";

#[test]
#[ignore = "dies; the test below runs it"]
fn victim() {
    let read = |pointer: *const u8| {
        // SAFETY: none: this is what must not work.
        let byte = unsafe { pointer.read_volatile() };
        println!("{byte}");
    };
    let no_core = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: a valid limit of this process.
    unsafe { libc::setrlimit(libc::RLIMIT_CORE, &no_core) };
    let three = place(&[1_u32, 2, 3]);
    let mut info = compute_info();
    match std::env::var(VICTIM).as_deref() {
        Ok("inside") => read(three.wrapping_add(2).cast()),
        Ok("behind") => read(three.wrapping_add(3).cast()),
        Ok("nothing") => read(place::<u32>(&[]).cast()),
        Ok("forbidden") => read(forbidden()),
        Ok("capture") => {
            info.stage.p_name = forbidden();
            println!("{:?}", of_compute(&info));
        }
        Ok("chain") => {
            let size = vk::PipelineShaderStageRequiredSubgroupSizeCreateInfo::default();
            // Its members lie behind the fence.
            info.stage.p_next =
                place_one(vk::BaseInStructure { s_type: size.s_type, ..Default::default() }).cast();
            println!("{:?}", of_compute(&info));
        }
        _ => {}
    }
}

/// The fence is real, and capture dies of it where it reads what it should.
#[test]
fn who_reads_behind_the_fence_dies() {
    let signal_of = |what: &str| {
        let mut child = Command::new(std::env::current_exe().unwrap());
        child.args(["--exact", "capture::tests::guard_page::victim", "--ignored", "--nocapture"]);
        let output = child.env(VICTIM, what).output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(text.contains("running 1 test"), "{text}");
        output.status.signal()
    };
    assert_eq!(signal_of("inside"), None, "what is inside can be read");
    for what in ["behind", "nothing", "forbidden", "capture", "chain"] {
        assert_eq!(signal_of(what), Some(libc::SIGSEGV), "{what}");
    }
}
