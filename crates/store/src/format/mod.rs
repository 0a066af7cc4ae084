//! The bytes of the files: encoding and decoding, no file is opened here.
//!
//! | file | what it knows |
//! |---|---|
//! | `sizes` | lengths, limits, magic numbers |
//! | `bytes` | integers, checked blocks, hexadecimal |
//! | `record` | keys, kinds of records, uses |
//! | `record_header` | what stands before a payload |
//! | `same` | artifacts whose data another artifact has |
//! | `device` | what a device part is bound to |
//! | `file` | the header of a segment file |
//! | `footer` | its footer |
//! | `checkpoint` | checkpoints of a file that is still written |
//! | `table` | the index of a sealed segment |
//! | `codec` | numbers of codecs |
//! | `app_name` | an application's folder name |
//! | `refusal` | why a file or a folder is not read |

pub mod app_name;
pub(crate) mod bytes;
pub(crate) mod checkpoint;
pub mod codec;
pub mod device;
pub(crate) mod file;
pub(crate) mod footer;
pub mod record;
pub(crate) mod record_header;
pub mod refusal;
pub mod same;
pub(crate) mod sizes;
pub(crate) mod table;
