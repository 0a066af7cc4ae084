//! The exported functions for sessions. `include/vkstash.h` is made of this file: the comments of functions are written
//! for C.

use std::ffi::{CStr, c_char, c_void};
use std::sync::atomic::{AtomicU64, Ordering};

use vkstash_sessions::description::Place;
use vkstash_sessions::error::Error;
use vkstash_sessions::session::Session;

use super::live;
use super::types::{Text, VkstashAdapter, VkstashResult, VkstashSession, VkstashSessionDesc};
use crate::config::{self, Config};
use crate::log;
use crate::state::process::session;
use vkstash_host::guard;

/// Runs the body of an exported function: nothing unwinds out of it.
pub(super) fn call(name: &'static str, body: impl FnOnce() -> VkstashResult) -> VkstashResult {
    guard::prepare(log::init);
    guard::guard(name, body, || VkstashResult::VKSTASH_ERROR_INTERNAL)
}

/// The stash of the program, if it can have one.
///
/// # Safety
/// NULL, or a C string.
pub(super) unsafe fn place(application: Text) -> Option<Place> {
    let config = Config::from_environment();
    // SAFETY: not NULL, so the caller promises a C string.
    let application = (!application.is_null()).then(|| unsafe { CStr::from_ptr(application) });
    let name = session::name_of(&config, application.map_or(&[], CStr::to_bytes));
    config.root.map(|root| Place::new(&root, &name))
}

/// Creates a session, and opens or creates its cache.
///
/// adapter is needed with VKSTASH_SESSION_FLAG_DRIVER_VERSIONED, and may be NULL otherwise. application_name is
/// VkApplicationInfo::pApplicationName of the program, or NULL: the caches of a program are in its stash, whose folder
/// VKSTASH_DIR names as for the layer. Sessions of one process with the same identifier share one cache, which lies
/// where the first one has opened it, and may become as large as the largest of their maximums. *session is 0 after an
/// error.
///
/// # Safety
/// Each pointer is NULL or points to what its type says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vkstash_create_session(
    desc: *const VkstashSessionDesc,
    adapter: *const VkstashAdapter,
    application_name: *const c_char,
    session: *mut VkstashSession,
) -> VkstashResult {
    call("vkstash_create_session", || {
        if session.is_null() {
            return VkstashResult::VKSTASH_ERROR_INVALID_ARGUMENT;
        }
        // SAFETY: not NULL, so the caller promises a place for a handle, which may be unaligned.
        unsafe { session.write_unaligned(0) };
        if desc.is_null() {
            return VkstashResult::VKSTASH_ERROR_INVALID_ARGUMENT;
        }
        // SAFETY: not NULL, so the caller promises a description of plain numbers.
        let desc = unsafe { desc.read_unaligned() };
        let Some(description) = desc.description() else {
            return VkstashResult::VKSTASH_ERROR_INVALID_ARGUMENT;
        };
        if config::inert() {
            return VkstashResult::VKSTASH_ERROR_NOT_CURRENTLY_AVAILABLE;
        }
        log::init();
        // SAFETY: if it is not NULL, the caller promises an adapter of plain numbers.
        let adapter = (!adapter.is_null()).then(|| unsafe { adapter.read_unaligned() }.adapter());
        // SAFETY: the caller promises that `application_name` is NULL or a NULL-terminated string.
        let place = unsafe { place(application_name) };
        match Session::create(&description, place.as_ref(), adapter.as_ref()) {
            Ok(created) => {
                let Some(handle) = live::add(created) else {
                    return VkstashResult::VKSTASH_ERROR_OUT_OF_MEMORY;
                };
                // SAFETY: as for the 0 above.
                unsafe { session.write_unaligned(handle) };
                VkstashResult::VKSTASH_SUCCESS
            }
            Err(error) => {
                let is_expected = matches!(error, Error::OpenWithOther(_) | Error::InvalidArgument(_));
                // A program may try again in a loop. A log line needs thread-local storage.
                static REFUSED: AtomicU64 = AtomicU64::new(0);
                let is_news = !is_expected
                    && (REFUSED.fetch_add(1, Ordering::Relaxed) + 1).is_power_of_two()
                    && !guard::tls_destroyed();
                if is_news {
                    tracing::warn!("a session cannot be created: {error}");
                }
                VkstashResult::of(&error)
            }
        }
    })
}

/// The bytes of a key.
///
/// # Safety
/// NULL, or so many readable bytes for `'a`. The length is at most that of the longest key.
unsafe fn bytes<'a>(at: *const c_void, size: usize) -> Option<&'a [u8]> {
    // SAFETY: not NULL, so the caller promises so many bytes, which nobody changes during the call.
    (!at.is_null()).then(|| unsafe { std::slice::from_raw_parts(at.cast::<u8>(), size) })
}

/// Finds the value of a key, which is compared as a whole.
///
/// With value NULL, *value_size becomes the size of the value. Otherwise *value_size says how many bytes value has room
/// for, and becomes the size of the value, also with VKSTASH_ERROR_BUFFER_TOO_SMALL. After an error value is unchanged.
/// key and value must not overlap.
///
/// # Safety
/// Each pointer is NULL or points to so many bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vkstash_find_value(
    session: VkstashSession,
    key: *const c_void,
    key_size: usize,
    value: *mut c_void,
    value_size: *mut usize,
) -> VkstashResult {
    call("vkstash_find_value", || {
        live::with(session, |session| {
            if value_size.is_null() {
                return VkstashResult::VKSTASH_ERROR_INVALID_ARGUMENT;
            }
            if let Err(error) = session.check_lengths(key_size, None) {
                return VkstashResult::of(&error);
            }
            // SAFETY: the caller's promise; the length was checked.
            let Some(key) = (unsafe { bytes(key, key_size) }) else {
                return VkstashResult::VKSTASH_ERROR_INVALID_ARGUMENT;
            };
            // SAFETY: not NULL, so the caller promises a size there, which may be unaligned.
            let room = unsafe { value_size.read_unaligned() };
            let found = if value.is_null() {
                session.find(key, None)
            } else {
                session.find_with(key, room, |found| {
                    // SAFETY: the caller promises `room` writable bytes that are not those of the key, and `found` is
                    // the library's own memory of at most so many bytes.
                    unsafe { value.cast::<u8>().copy_from_nonoverlapping(found.as_ptr(), found.len()) };
                })
            };
            let (size, result) = match found {
                Ok(size) => (size, VkstashResult::VKSTASH_SUCCESS),
                Err(Error::BufferTooSmall { needed }) => {
                    (needed, VkstashResult::VKSTASH_ERROR_BUFFER_TOO_SMALL)
                }
                Err(error) => return VkstashResult::of(&error),
            };
            // SAFETY: as for the size that was read.
            unsafe { value_size.write_unaligned(size) };
            result
        })
    })
}

/// Adds an entry. When this returns VKSTASH_SUCCESS, the entry of a cache on disk outlives the process.
///
/// # Safety
/// Each pointer is NULL or points to so many bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vkstash_store_value(
    session: VkstashSession,
    key: *const c_void,
    key_size: usize,
    value: *const c_void,
    value_size: usize,
) -> VkstashResult {
    call("vkstash_store_value", || {
        live::with(session, |session| {
            // No byte is read before, whatever the sizes claim.
            if let Err(error) = session.check_lengths(key_size, Some(value_size)) {
                return VkstashResult::of(&error);
            }
            // SAFETY: the caller's promise; the lengths were checked.
            let (Some(key), Some(value)) = (unsafe { (bytes(key, key_size), bytes(value, value_size)) })
            else {
                return VkstashResult::VKSTASH_ERROR_INVALID_ARGUMENT;
            };
            VkstashResult::from(session.store(key, value))
        })
    })
}

/// Deletes the entries when the last session of the cache is destroyed.
#[unsafe(no_mangle)]
pub extern "C" fn vkstash_set_delete_on_destroy(session: VkstashSession) -> VkstashResult {
    call("vkstash_set_delete_on_destroy", || {
        live::with(session, |session| {
            session.set_delete_on_destroy();
            VkstashResult::VKSTASH_SUCCESS
        })
    })
}

/// Returns the description that the session was created with.
///
/// # Safety
/// NULL, or a place for a description.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vkstash_get_session_desc(
    session: VkstashSession,
    desc: *mut VkstashSessionDesc,
) -> VkstashResult {
    call("vkstash_get_session_desc", || {
        live::with(session, |session| {
            if desc.is_null() {
                return VkstashResult::VKSTASH_ERROR_INVALID_ARGUMENT;
            }
            // SAFETY: not NULL, so the caller promises a place for a description, which may be unaligned.
            unsafe { desc.write_unaligned(VkstashSessionDesc::of(session.description())) };
            VkstashResult::VKSTASH_SUCCESS
        })
    })
}

/// Destroys a session. 0 is no session, and no error. Other threads may be using the session: their calls end as they
/// would have.
#[unsafe(no_mangle)]
pub extern "C" fn vkstash_destroy_session(session: VkstashSession) -> VkstashResult {
    if session == 0 {
        return VkstashResult::VKSTASH_SUCCESS;
    }
    call("vkstash_destroy_session", || live::remove(session))
}
