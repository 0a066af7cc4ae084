//! The bytes of the files: encoding and decoding. No file is opened here.
//!
//! | file | what it knows |
//! |---|---|
//! | `sizes` | lengths, limits, magic numbers |
//! | `bytes` | integers, checked blocks |
//! | `record_header` | the header of a record |
//! | `device` | the device header |
//! | `file` | the header of a segment file |
//! | `footer` | the footer of a sealed segment |
//! | `fingerprint` | by which equal artifacts are found |
//! | `seal` | what a sealed segment says of itself at its start |
//! | `checkpoint` | checkpoints, and the pointers to them |
//! | `table` | the index of a sealed segment |
//! | `codec` | how payloads are stored |
//! | `refusal` | why a file is not used |

pub(crate) mod bytes;
pub(crate) mod checkpoint;
pub mod codec;
pub mod device;
pub(crate) mod file;
pub(crate) mod fingerprint;
pub(crate) mod footer;
pub(crate) mod record_header;
pub mod refusal;
pub(crate) mod seal;
pub(crate) mod sizes;
pub(crate) mod table;
