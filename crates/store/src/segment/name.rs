//! Names of segment files, which sort in the order of writing.

use std::io;

use vkstash_host::util::random;

/// Creates a segment of that age under a new name. Returns the name, the serial number in it, and the result of
/// `create`.
pub(crate) fn new_name<T>(age: u64, create: impl Fn(&str) -> io::Result<T>) -> io::Result<(String, u64, T)> {
    let mut attempts = 0;
    loop {
        let serial = random();
        let name = format!("{age:016x}-{:08x}-{serial:016x}.vks", std::process::id());
        match create(&name) {
            Ok(created) => return Ok((name, serial, created)),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists && attempts < 8 => attempts += 1,
            Err(error) => return Err(error),
        }
    }
}

/// The age in a segment's name, in Unix milliseconds; 0 for a name of another form.
pub fn age_of(name: &str) -> u64 {
    let age = name.split_once('-').map(|(age, _)| age).filter(|age| age.len() == 16);
    age.and_then(|age| u64::from_str_radix(age, 16).ok()).unwrap_or(0)
}
