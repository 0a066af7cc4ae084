//! Debug messengers and report callbacks. The driver, and the layers below, call them on whatever thread has something
//! to say. A worker of the layer is a thread that the program does not know: it may hold a lock that its callback needs
//! in vkDestroyDevice, which waits for the worker, and what it does with a message may be bound to threads of its own.
//! So the callback that goes down is one of the layer's, which says nothing of what workers do.

use std::collections::BTreeMap;
use std::ffi::{c_char, c_void};

use ash::vk;

use crate::background::gate;
use crate::state::process::instance;
use vkstash_host::forks::PerProcess;
use vkstash_host::guard::guard;
use vkstash_host::sync::Mutex;

/// A callback of the program's and what it wants to be called with, both as numbers.
struct ProgramCallback {
    function: usize,
    data: usize,
}

/// Each once, until the process ends: a driver may call it while another thread destroys its messenger, which is
/// forbidden, and goes well without the layer. Those of its parent a forked child has beside these.
static KEPT: PerProcess<Mutex<Kept>> = PerProcess::empty();

type Kept = BTreeMap<(usize, usize), Box<ProgramCallback>>;

fn keep(function: usize, data: *mut c_void) -> *mut c_void {
    let data = data.expose_provenance();
    let mut all = KEPT.get().lock();
    let kept = all.entry((function, data)).or_insert_with(|| Box::new(ProgramCallback { function, data }));
    std::ptr::from_ref::<ProgramCallback>(kept).cast_mut().cast()
}

/// The program's callback and its data, on a thread of the program's.
///
/// # Safety
/// `kept` is what [`keep`] has returned.
unsafe fn of_program(kept: *mut c_void) -> Option<(usize, *mut c_void)> {
    if gate::is_in_driver() {
        return None;
    }
    // SAFETY: `kept` points to a `ProgramCallback` that `keep` has leaked, so it is valid until the process ends.
    let ProgramCallback { function, data } = unsafe { &*kept.cast::<ProgramCallback>() };
    Some((*function, std::ptr::with_exposed_provenance_mut(*data)))
}

/// The type of a program's VK_EXT_debug_utils callback. It may throw: such an exception passes through without the
/// layer, too.
type Utils = unsafe extern "system-unwind" fn(
    vk::DebugUtilsMessageSeverityFlagsEXT,
    vk::DebugUtilsMessageTypeFlagsEXT,
    *const vk::DebugUtilsMessengerCallbackDataEXT<'_>,
    *mut c_void,
) -> vk::Bool32;
/// The type of a program's VK_EXT_debug_report callback, which may throw as well.
type Report = unsafe extern "system-unwind" fn(
    vk::DebugReportFlagsEXT,
    vk::DebugReportObjectTypeEXT,
    u64,
    usize,
    i32,
    *const c_char,
    *const c_char,
    *mut c_void,
) -> vk::Bool32;

/// PFN_vkDebugUtilsMessengerCallbackEXT, with what [`keep`] has returned.
unsafe extern "system-unwind" fn say_utils(
    severity: vk::DebugUtilsMessageSeverityFlagsEXT,
    types: vk::DebugUtilsMessageTypeFlagsEXT,
    message: *const vk::DebugUtilsMessengerCallbackDataEXT<'_>,
    kept: *mut c_void,
) -> vk::Bool32 {
    // SAFETY: it was passed below together with this function.
    let Some((function, data)) = (unsafe { of_program(kept) }) else { return vk::FALSE };
    // SAFETY: the number is that of a function with this signature, which was kept with this data; the arguments are
    // those that a driver calls it with.
    unsafe {
        std::mem::transmute::<*const (), Utils>(std::ptr::with_exposed_provenance(function))(
            severity, types, message, data,
        )
    }
}

/// PFN_vkDebugReportCallbackEXT, with what [`keep`] has returned.
unsafe extern "system-unwind" fn say_report(
    flags: vk::DebugReportFlagsEXT,
    kind: vk::DebugReportObjectTypeEXT,
    object: u64,
    location: usize,
    code: i32,
    layer: *const c_char,
    message: *const c_char,
    kept: *mut c_void,
) -> vk::Bool32 {
    // SAFETY: it was passed below together with this function.
    let Some((function, data)) = (unsafe { of_program(kept) }) else { return vk::FALSE };
    // SAFETY: the number is that of a function with this signature, which was kept with this data; the arguments are
    // those that a driver calls it with.
    unsafe {
        std::mem::transmute::<*const (), Report>(std::ptr::with_exposed_provenance(function))(
            flags, kind, object, location, code, layer, message, data,
        )
    }
}

/// Has the command below create a messenger, which is counted first.
///
/// # Safety
/// `handle` is a live instance.
unsafe fn create<P>(
    command: &'static str,
    handle: vk::Instance,
    next: impl FnOnce(&instance::Instance) -> Option<P>,
    below: impl FnOnce(P) -> vk::Result,
) -> vk::Result {
    // SAFETY: the program passes a live instance to the command that creates a messenger.
    let found = guard(command, || unsafe { instance::find(handle) }, || None);
    let Some((found, next)) = found.and_then(|found| next(&found).map(|next| (found, next))) else {
        return vk::Result::ERROR_OUT_OF_HOST_MEMORY;
    };
    found.messengers.add();
    let result = below(next);
    if result != vk::Result::SUCCESS {
        found.messengers.remove();
    }
    result
}

/// Has the command below destroy a messenger. No worker is in a driver meanwhile: the specification forbids the end of
/// a messenger in parallel with any command on the instance or its devices.
///
/// # Safety
/// `handle` is a live instance.
unsafe fn destroy<P>(
    command: &'static str,
    handle: vk::Instance,
    is_null: bool,
    next: impl FnOnce(&instance::Instance) -> Option<P>,
    below: impl FnOnce(P),
) {
    // SAFETY: the instance is alive: a messenger is destroyed before its instance
    // (VUID-vkDestroyInstance-instance-00629).
    let found = guard(command, || unsafe { instance::find(handle) }, || None);
    let Some((found, next)) = found.and_then(|found| next(&found).map(|next| (found, next))) else { return };
    guard(command, || gate::without_workers(|| below(next)), || ());
    if !is_null {
        found.messengers.remove();
    }
}

/// vkCreateDebugUtilsMessengerEXT.
pub unsafe extern "system" fn create_utils(
    handle: vk::Instance,
    info: *const vk::DebugUtilsMessengerCreateInfoEXT<'_>,
    allocator: *const vk::AllocationCallbacks<'_>,
    messenger: *mut vk::DebugUtilsMessengerEXT,
) -> vk::Result {
    let next = |found: &instance::Instance| found.table.create_debug_utils_messenger;
    // SAFETY: a live instance, and the program's valid arguments. Arguments and result are passed alike by the two
    // calling conventions, of which one lets exceptions through; the copy of the create info lives until the call is
    // over.
    unsafe {
        create("vkCreateDebugUtilsMessengerEXT", handle, next, |next| {
            let mut own = *info;
            if let Some(function) = own.pfn_user_callback {
                own.p_user_data = keep(function as *const () as usize, own.p_user_data);
                own.pfn_user_callback = std::mem::transmute::<
                    Option<Utils>,
                    vk::PFN_vkDebugUtilsMessengerCallbackEXT,
                >(Some(say_utils));
            }
            next(handle, &own, allocator, messenger)
        })
    }
}

/// vkDestroyDebugUtilsMessengerEXT.
pub unsafe extern "system" fn destroy_utils(
    handle: vk::Instance,
    messenger: vk::DebugUtilsMessengerEXT,
    allocator: *const vk::AllocationCallbacks<'_>,
) {
    let next = |found: &instance::Instance| found.table.destroy_debug_utils_messenger;
    let is_null = messenger == vk::DebugUtilsMessengerEXT::null();
    // SAFETY: a live instance, and the program's valid arguments.
    unsafe {
        destroy("vkDestroyDebugUtilsMessengerEXT", handle, is_null, next, |next| {
            next(handle, messenger, allocator);
        });
    }
}

/// vkCreateDebugReportCallbackEXT.
pub unsafe extern "system" fn create_report(
    handle: vk::Instance,
    info: *const vk::DebugReportCallbackCreateInfoEXT<'_>,
    allocator: *const vk::AllocationCallbacks<'_>,
    callback: *mut vk::DebugReportCallbackEXT,
) -> vk::Result {
    let next = |found: &instance::Instance| found.table.create_debug_report_callback;
    // SAFETY: a live instance, and the program's valid arguments. Arguments and result are passed alike by the two
    // calling conventions, of which one lets exceptions through; the copy of the create info lives until the call is
    // over.
    unsafe {
        create("vkCreateDebugReportCallbackEXT", handle, next, |next| {
            let mut own = *info;
            if let Some(function) = own.pfn_callback {
                own.p_user_data = keep(function as *const () as usize, own.p_user_data);
                own.pfn_callback =
                    std::mem::transmute::<Option<Report>, vk::PFN_vkDebugReportCallbackEXT>(Some(say_report));
            }
            next(handle, &own, allocator, callback)
        })
    }
}

/// vkDestroyDebugReportCallbackEXT.
pub unsafe extern "system" fn destroy_report(
    handle: vk::Instance,
    callback: vk::DebugReportCallbackEXT,
    allocator: *const vk::AllocationCallbacks<'_>,
) {
    let next = |found: &instance::Instance| found.table.destroy_debug_report_callback;
    let is_null = callback == vk::DebugReportCallbackEXT::null();
    // SAFETY: a live instance, and the program's valid arguments.
    unsafe {
        destroy("vkDestroyDebugReportCallbackEXT", handle, is_null, next, |next| {
            next(handle, callback, allocator);
        });
    }
}
