//! Sessions of a program, from its start to its end, as its user sees them: what it waited for, and what was ready.
//!
//! | file | what it knows |
//! |---|---|
//! | `session` | one session, made of the reports of its processes |
//! | `history` | the sessions of an application, and what changed between them |
//! | `words` | a session in one sentence |

mod history;
mod session;
mod words;

pub(crate) use history::{History, Row};
pub(crate) use session::{Driver, Session};
