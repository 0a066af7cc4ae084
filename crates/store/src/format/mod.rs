//! The bytes of the files: encoding and decoding. No file is opened here.
//!
//! | file | what it knows |
//! |---|---|
//! | `sizes` | lengths, limits, magic numbers |
//! | `bytes` | integers, checked blocks |
//! | `record` | keys, kinds of records, uses |
//! | `record_header` | the header of a record |
//! | `crash_count` | how many processes died of an artifact, or while a pipeline was compiled |
//! | `same` | references to artifacts with equal data |
//! | `device` | the device header |
//! | `file` | the header of a segment file |
//! | `footer` | the footer of a sealed segment |
//! | `seal` | what a sealed segment says of itself at its start |
//! | `checkpoint` | checkpoints, and the pointers to them |
//! | `table` | the index of a sealed segment |
//! | `codec` | how payloads are stored |
//! | `app_name` | an application's folder name |
//! | `refusal` | why a file or a folder is not used |

pub mod app_name;
pub(crate) mod bytes;
pub(crate) mod checkpoint;
pub mod codec;
pub mod crash_count;
pub mod device;
pub(crate) mod file;
pub(crate) mod footer;
pub mod record;
pub(crate) mod record_header;
pub mod refusal;
pub mod same;
pub(crate) mod seal;
pub(crate) mod sizes;
pub(crate) mod table;
