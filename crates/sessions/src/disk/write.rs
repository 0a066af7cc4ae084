//! The two writes of a store.

use std::os::fd::BorrowedFd;

use rustix::io::Errno;
use vkstash_host::signals::Quiet;

use crate::error::Error;

/// Writes all of `bytes` at `offset`. The caller has compared the descriptor with its file.
pub(crate) fn write_all(quiet: &Quiet, file: BorrowedFd<'_>, bytes: &[u8], offset: u64) -> Result<(), Error> {
    let (mut rest, mut at) = (bytes, offset);
    while !rest.is_empty() {
        match quiet.pwrite(file, rest, at) {
            Ok(0) => return Err(Errno::IO.into()),
            Ok(count) => {
                rest = rest.get(count..).unwrap_or_default();
                at += count as u64;
            }
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}
