//! Memory that the parser takes: at most a small multiple of a document's length, because no count in a document is
//! trusted.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use vkstash_fossilize::json::parse;

static NOW: AtomicUsize = AtomicUsize::new(0);
static MOST: AtomicUsize = AtomicUsize::new(0);

/// The system's allocator, which is asked how much is in use.
struct Counting;

// SAFETY: the system's allocator does the work.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let now = NOW.fetch_add(layout.size(), Relaxed) + layout.size();
        MOST.fetch_max(now, Relaxed);
        // SAFETY: the caller's layout.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        NOW.fetch_sub(layout.size(), Relaxed);
        // SAFETY: the caller's memory.
        unsafe { System.dealloc(memory, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// How many times its length a document takes at most.
fn times(document: &[u8]) -> usize {
    let before = NOW.load(Relaxed);
    MOST.store(before, Relaxed);
    drop(parse(document));
    (MOST.load(Relaxed) - before) / document.len()
}

/// A mutable descriptor type list in the chain of a set layout, with the elements of an array.
fn lists(element: &str) -> Vec<u8> {
    let elements = vec![element; (1 << 20) / element.len()].join(",");
    let chain = format!("{{\"sType\":1000351002,\"mutableDescriptorTypeLists\":[{elements}]}}");
    format!("{{\"version\":6,\"setLayouts\":{{\"1\":{{\"flags\":0,\"bindings\":[],\"pNext\":[{chain}]}}}}}}")
        .into()
}

/// A module of a size, and as many bytes behind the text.
fn packed_module(code_size: u64, packed: usize) -> Vec<u8> {
    let sizes = format!("\"codeSize\":{code_size},\"varintOffset\":0,\"varintSize\":{packed}");
    let text = format!("{{\"version\":6,\"shaderModules\":{{\"1\":{{\"flags\":0,{sizes}}}}}}}\0");
    [text.into_bytes(), vec![1; packed]].concat()
}

// The only test of this program: others would allocate beside it.
#[test]
fn a_document_takes_a_small_multiple_of_its_length() {
    for element in ["0", "[]", "[0]", "{}", "{\"\":0}", "\"\"", "[0,0,0]", "[[],[]]"] {
        let times = times(&lists(element));
        assert!(times <= 64, "{element} {times}");
    }
    assert!(times(&packed_module(1 << 32, 1)) <= 64);
    assert!(times(&packed_module(4 << 20, 1 << 20)) <= 8);
}
