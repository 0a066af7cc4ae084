//! Link options of the layer library.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    // The loader unloads a layer after vkDestroyInstance. Every thread is joined before that, and the
    // library staying mapped is the second belt: an exit handler or a thread-local destructor of ours
    // never points into unmapped memory.
    println!("cargo:rustc-cdylib-link-arg=-Wl,-z,nodelete");
    println!("cargo:rustc-cdylib-link-arg=-Wl,-z,relro,-z,now");
    // A program finds the library that is loaded by this name, whatever its path: dlopen with RTLD_NOLOAD.
    println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libVkLayer_vkstash.so");
    // Destructors of thread-local storage are kept with a pthread key, not with the C library, which takes the dynamic
    // loader's lock to register each: a program that destroys its device in a constructor of a library would wait for
    // threads that wait for that. The standard library falls back to keys where the function is missing, and under this
    // name it is.
    println!("cargo:rustc-cdylib-link-arg=-Wl,--wrap=__cxa_thread_atexit_impl");
}
