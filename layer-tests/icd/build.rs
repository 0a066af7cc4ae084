//! Link options of the driver.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    // The loader unloads drivers with the last instance; the record, the simulated disk cache and the exit handler
    // are needed after that.
    println!("cargo:rustc-cdylib-link-arg=-Wl,-z,nodelete");
}
