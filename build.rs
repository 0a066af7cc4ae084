//! Link options of the layer library.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    // The loader unloads a layer after vkDestroyInstance. Every thread is joined before that, and the
    // library staying mapped is the second belt: an exit handler or a thread-local destructor of ours
    // never points into unmapped memory.
    println!("cargo:rustc-cdylib-link-arg=-Wl,-z,nodelete");
    println!("cargo:rustc-cdylib-link-arg=-Wl,-z,relro,-z,now");
}
